"""Recipe for Conan 2: `conan create .`

The system's Meson and OpenCL headers are used if the profile names them as platform requirements.
"""
import glob
import os

from conan import ConanFile
from conan.tools.files import copy, get, rmdir
from conan.tools.layout import basic_layout
from conan.tools.meson import Meson, MesonToolchain

required_conan_version = ">=2.4"


class Clattn(ConanFile):
    name = "clattn"
    version = "@VERSION@"
    description = "Transformer attention on any OpenCL device, GPU or CPU, of any vendor"
    license = "Apache-2.0"
    topics = ("attention", "transformer", "opencl", "gpu")
    package_type = "library"
    languages = "C"
    implements = ["auto_shared_fpic"]
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False]}
    default_options = {"shared": False, "fPIC": True}

    def layout(self):
        basic_layout(self, src_folder="src")

    def requirements(self):
        self.requires("opencl-headers/2025.07.22", transitive_headers=True)

    def build_requirements(self):
        self.tool_requires("meson/[>=1.2.3 <2]")

    def source(self):
        get(self, **self.conan_data["sources"][self.version], strip_root=True)

    def generate(self):
        toolchain = MesonToolchain(self)
        # Build only the library, which finds OpenCL at run time.
        for option in "tests", "tool", "mpi", "clblast", "onnxruntime":
            toolchain.project_options[option] = "disabled"
        toolchain.generate()

    def build(self):
        meson = Meson(self)
        meson.configure()
        meson.build()

    def package(self):
        for name in "LICENSE", "NOTICE":
            copy(self, name, self.source_folder, os.path.join(self.package_folder, "licenses"))
        Meson(self).install()
        # Conan generates its own files for CMake and pkg-config.
        for other in "lib/cmake", "lib/pkgconfig", "lib/python*", "share":
            for folder in glob.glob(os.path.join(self.package_folder, other)):
                rmdir(self, folder)

    def package_info(self):
        self.cpp_info.libs = ["clattn"]
        self.cpp_info.set_property("cmake_file_name", "clattn")
        self.cpp_info.set_property("cmake_target_name", "clattn::clattn")
        self.cpp_info.set_property("pkg_config_name", "clattn")
        if self.settings.os in ("Linux", "FreeBSD"):
            self.cpp_info.system_libs = ["m", "pthread", "dl"]
