class Clattn < Formula
  desc "Transformer attention on any OpenCL device, GPU or CPU, of any vendor"
  url "@URL@"
  version "@VERSION@"
  sha256 "@SHA256@"
  license "Apache-2.0"

  depends_on "meson" => :build
  depends_on "ninja" => :build
  depends_on "pkgconf" => :build
  depends_on "clblast"
  depends_on "jansson"
  depends_on "libpng"
  uses_from_macos "python" => :build

  on_linux do
    depends_on "opencl-headers" => :build
    depends_on "opencl-icd-loader"
  end

  def install
    system "meson", "setup", "build", "-Dtests=disabled", "-Dmpi=disabled", "-Dfonts=disabled", "-Dtool=enabled", *std_meson_args
    system "meson", "compile", "-C", "build"
    system "meson", "install", "-C", "build"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/clattn --version")
  end
end
