#!/bin/sh
# Packaging recipes of the last commit, executed. Conan builds its package, and a program with it. A
# Meson project uses its wrap. The port for vcpkg runs under CMake with replacements for vcpkg's
# functions. The recipe for conda is rendered and read, and Ruby reads Homebrew's. Neither Debian
# nor PyPI has conda-build, vcpkg and brew, so these are not run.
#
#   check_recipes.sh BUILD
set -eu
root=$(pwd)
mkdir -p "$1/recipes"
here=$(cd "$1/recipes" && pwd)
python=$here/python/bin/python
wrong() { echo "$1"; exit 1; }
[ -x "$python" ] || python3 -m venv "$here/python"
"$python" -m pip install -q --disable-pip-version-check --require-hashes -r tests/requirements/conan.txt >"$here/pip.log" 2>&1 ||
    { echo "PyPI is not reachable"; exit 77; }
sh src/packaging/make_recipes.sh "$here/first" >"$here/files"
sh src/packaging/make_recipes.sh "$here/again" "file://$here/first/$(grep tar.xz "$here/files")" >/dev/null
diff -r "$here/first" "$here/again" >/dev/null || wrong "made twice, recipes differ"
if grep -rn '@[A-Z0-9]*@' "$here/first" --include='*.*' --exclude='*.xz'; then wrong "a word of the pattern is left"; fi
if sh src/packaging/make_recipes.sh "$here/no" 'https://x/a|b' >/dev/null 2>&1; then wrong "a URL with a bar was taken"; fi
version=$(sed -n "s/^.define CLATTN_VERSION_STRING \"\(.*\)\"/\1/p" include/clattn/version.h)

# Conan, with its own folder. The platform provides Meson and OpenCL's headers, which ConanCenter
# would provide elsewhere.
export CONAN_HOME="$here/conan_home"
rm -rf "$CONAN_HOME"
conan() { "$python" -m conans.conan "$@"; }
conan profile detect >/dev/null 2>&1
cat >>"$CONAN_HOME/profiles/default" <<END
[platform_tool_requires]
meson/1.2.3
[platform_requires]
opencl-headers/2025.07.22
END
for shared in True False; do
    conan create "$here/first/conan" -o "clattn/*:shared=$shared" --no-remote >"$here/conan.log" 2>&1 ||
        { tail -n 20 "$here/conan.log"; wrong "conan create, shared $shared"; }
    grep -q "clattn $version, [0-9]* devices" "$here/conan.log" || wrong "Conan's consumer did not run"
done
package=$(find "$CONAN_HOME/p" -path '*/p/include/clattn/clattn.h' | head -n 1)
package=${package%/include/*}
(cd "$package" && find . -type f | sort) >"$here/package"
grep -q '^./licenses/NOTICE$' "$here/package" || wrong "Conan's package has no NOTICE"
if grep -vE '^./(include/clattn/[a-z_]*\.(h|def)|lib/libclattn\.(a|so[.0-9]*)|licenses/(LICENSE|NOTICE)|conan[a-z]*\.txt)$' "$here/package"; then
    wrong "Conan's package has more than library, header and licence"
fi

# The Meson wrap.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/wrap/subprojects"
cp "$here/first/meson/clattn.wrap" "$work/wrap/subprojects/"
cp "$here/first/conan/test_package/consumer.c" "$work/wrap/"
cat >"$work/wrap/meson.build" <<'END'
project('consumer', 'c', default_options: ['c_std=c11'])
executable('consumer', 'consumer.c', dependencies: dependency('clattn'))
END
meson setup "$work/wrap/build" "$work/wrap" --wrap-mode=forcefallback >"$here/wrap.log" 2>&1 || { tail -n 5 "$here/wrap.log"; wrong "the wrap"; }
ninja -C "$work/wrap/build" consumer >"$here/wrap.log" 2>&1 || { tail -n 5 "$here/wrap.log"; wrong "the wrap's consumer"; }
"$work/wrap/build/consumer" | grep -q "clattn $version"
sed 's/^source_hash = ./&0/' "$here/first/meson/clattn.wrap" >"$work/wrap/subprojects/clattn.wrap"
rm -rf "$work/wrap/subprojects/clattn-$version" "$work/wrap/subprojects/packagecache"
if meson setup "$work/wrap/other" "$work/wrap" --wrap-mode=forcefallback >/dev/null 2>&1; then wrong "another tarball's sum was taken"; fi

# The vcpkg port. These functions do what vcpkg's do. CMake reports a call of a function that vcpkg
# does not have.
cat >"$work/vcpkg.cmake" <<'END'
cmake_minimum_required(VERSION 3.21)
set(CURRENT_PACKAGES_DIR "${WORK}/packages")
function(vcpkg_download_distfile OUT)
    cmake_parse_arguments(A "" "FILENAME;SHA512" "URLS" ${ARGN})
    file(DOWNLOAD "${A_URLS}" "${WORK}/${A_FILENAME}" EXPECTED_HASH "SHA512=${A_SHA512}")
    set(${OUT} "${WORK}/${A_FILENAME}" PARENT_SCOPE)
endfunction()
function(vcpkg_extract_source_archive OUT)
    cmake_parse_arguments(A "" "ARCHIVE" "" ${ARGN})
    file(ARCHIVE_EXTRACT INPUT "${A_ARCHIVE}" DESTINATION "${WORK}/source")
    file(GLOB TOP "${WORK}/source/*")
    set(${OUT} "${TOP}" PARENT_SCOPE)
endfunction()
function(vcpkg_configure_meson)
    cmake_parse_arguments(A "" "SOURCE_PATH" "OPTIONS" ${ARGN})
    execute_process(COMMAND meson setup "${WORK}/build" "${A_SOURCE_PATH}" --prefix "${CURRENT_PACKAGES_DIR}" --libdir lib ${A_OPTIONS}
        COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
endfunction()
function(vcpkg_install_meson)
    execute_process(COMMAND meson install -C "${WORK}/build" COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
endfunction()
function(vcpkg_fixup_pkgconfig)
    if(NOT EXISTS "${CURRENT_PACKAGES_DIR}/lib/pkgconfig/clattn.pc")
        message(FATAL_ERROR "no clattn.pc")
    endif()
endfunction()
function(vcpkg_cmake_config_fixup)
    cmake_parse_arguments(A "" "CONFIG_PATH" "" ${ARGN})
    file(GLOB CONFIG "${CURRENT_PACKAGES_DIR}/${A_CONFIG_PATH}/clattn*onfig.cmake")
    if(NOT CONFIG)
        message(FATAL_ERROR "no package configuration in ${A_CONFIG_PATH}")
    endif()
endfunction()
function(vcpkg_copy_tools)
    cmake_parse_arguments(A "AUTO_CLEAN" "" "TOOL_NAMES" ${ARGN})
    file(COPY "${CURRENT_PACKAGES_DIR}/bin/${A_TOOL_NAMES}" DESTINATION "${CURRENT_PACKAGES_DIR}/tools/clattn")
endfunction()
function(vcpkg_install_copyright)
    cmake_parse_arguments(A "" "" "FILE_LIST" ${ARGN})
    file(COPY ${A_FILE_LIST} DESTINATION "${CURRENT_PACKAGES_DIR}/share/clattn")
endfunction()
set(FEATURES core tools)
include("${PORT}/portfile.cmake")
END
cmake -DWORK="$work/vcpkg" -DPORT="$here/first/vcpkg" -P "$work/vcpkg.cmake" >"$here/vcpkg.log" 2>&1 || { tail -n 10 "$here/vcpkg.log"; wrong "vcpkg's port"; }
for file in tools/clattn/clattn share/clattn/LICENSE include/clattn/clattn.h; do
    [ -f "$work/vcpkg/packages/$file" ] || wrong "vcpkg's port installs no $file"
done

"$python" - "$here/first" "$version" <<'PYTHON'
import json, re, sys
import jinja2, yaml
folder, version = sys.argv[1:]
port = json.load(open(folder + "/vcpkg/vcpkg.json"))
assert port["name"] == "clattn" and port["version"] == version and set(port["features"]) == {"clblast", "tools"}, port
assert all(re.fullmatch("[a-z0-9-]+", x if isinstance(x, str) else x["name"]) for x in port["dependencies"]), port
words = {"compiler": lambda x: x, "stdlib": lambda x: x, "pin_subpackage": lambda name, max_pin: f"{name} {max_pin}"}
recipe = yaml.safe_load(jinja2.Template(open(folder + "/conda/meta.yaml").read(), undefined=jinja2.StrictUndefined).render(words))
assert recipe["package"] == {"name": "clattn", "version": version} and len(recipe["source"]["sha256"]) == 64, recipe
assert {"build", "host", "run"} == set(recipe["requirements"]) and recipe["test"]["commands"], recipe
PYTHON
ruby -wc "$here/first/homebrew/clattn.rb" >"$here/ruby.log" 2>&1 || { cat "$here/ruby.log"; wrong "Homebrew's formula"; }
options=$(sed -n "s/^option('\([a-z]*\)'.*/-D\1=/p" "$root/meson_options.txt")
for option in $(grep -rhoE -e '-D[a-z]+=' "$here/first"/*/*.rb "$here/first"/*/*.yaml | sort -u); do
    case " $(echo "$options" | tr '\n' ' ')" in *" $option "*) ;; *) wrong "$option: meson_options.txt has no such option" ;; esac
done
echo "counted: Conan shared and static, a wrap, vcpkg's port; conda's and Homebrew's recipes read"
