# debian_packages.sh: unpack packages of a Debian release, with their dependencies, in a folder.
# Nothing is installed, and root is not needed. Source it.
#   debian_packages FOLDER RELEASE ARCHITECTURE PACKAGE...
# False if a package cannot be downloaded; FOLDER/log has the reason. $CLATTN_DEBIAN sets a mirror.
debian_packages() {
    [ ! -f "$1/complete" ] || return 0
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
    folder=$1 release=$2 architecture=$3
    shift 3
    rm -rf "$folder"
    mkdir -p "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial" && folder=$(cd "$folder" && pwd) || return 1
    : >"$folder/apt/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${CLATTN_DEBIAN:-https://deb.debian.org/debian} $release main" \
        >"$folder/apt/sources.list"
    cat >"$folder/apt/conf" <<END
APT::Architecture "$architecture";
APT::Architectures { "$architecture"; };
APT::Install-Recommends "0";
APT::Sandbox::User "root";
Dir::State::lists "$folder/apt/lists";
Dir::State::status "$folder/apt/status";
Dir::Cache "$folder/apt/cache";
Dir::Etc::sourcelist "$folder/apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
END
    {
        APT_CONFIG=$folder/apt/conf apt-get update -qq &&
            APT_CONFIG=$folder/apt/conf apt-get install -qq -y --download-only "$@" || return 1
        # Headers of another C library would replace those of this machine.
        for package in "$folder"/apt/cache/archives/*.deb; do
            dpkg-deb --fsys-tarfile "$package" | tar -x -C "$folder" --exclude=./usr/include --exclude=./usr/share/doc || return 1
        done
    } >"$folder/log" 2>&1
    rm -rf "$folder/apt/cache" "$folder/apt/lists"
    touch "$folder/complete"
}
