"""Build the source archive, and from it a wheel that carries compiled kernels: `make wheels`.

The wheel needs Python 3.11 or newer and numpy, neither numba nor a compiler. One wheel serves every
Python of a platform. What `pip install` builds from the source archive needs numba instead, which
compiles each kernel when it is first used.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILT = "driftbandits/jit/built"
_NEEDS_NUMBA = re.compile(r"^Requires-Dist: numba[^;\n]*\n", re.MULTILINE)


def platform_tag(modules: Sequence[Path]) -> str:
    """The oldest platform on which these extension modules can be loaded."""
    if sys.platform != "linux":
        return sysconfig.get_platform().replace("-", "_").replace(".", "_")
    needed = re.compile(rb"GLIBC_2\.(\d+)(?:\.\d+)?\0")
    minors = [int(minor) for path in modules for minor in needed.findall(path.read_bytes())]
    return f"manylinux_2_{max([17, *minors])}_{platform.machine()}"


def with_kernels(wheel: Path, built: Path, folder: Path) -> Path:
    """Write a wheel with the modules of `built` beside the files of a pure one."""
    modules = sorted(built.iterdir())
    name, version, *_ = wheel.name.split("-")
    tag = f"cp311-abi3-{platform_tag(modules)}"
    made = folder / f"{name}-{version}-{tag}.whl"
    information = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(wheel) as given:
        content = {path: given.read(path) for path in given.namelist() if not path.endswith("/")}
    del content[f"{information}/RECORD"]
    metadata = content[f"{information}/METADATA"].decode()
    content[f"{information}/METADATA"] = _NEEDS_NUMBA.sub("", metadata, count=1).encode()
    about = content[f"{information}/WHEEL"].decode()
    about = about.replace("Root-Is-Purelib: true", "Root-Is-Purelib: false")
    content[f"{information}/WHEEL"] = re.sub("Tag: .*", f"Tag: {tag}", about).encode()
    content |= {f"{BUILT}/{path.name}": path.read_bytes() for path in modules}
    lines = [f"{path},{_digest(data)},{len(data)}" for path, data in content.items()]
    record = "\n".join([*lines, f"{information}/RECORD,,\n"])
    content[f"{information}/RECORD"] = record.encode()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as written:
        for path, data in content.items():
            # the time of every entry is fixed, so that the same build gives the same bytes
            entry = zipfile.ZipInfo(path, date_time=(2020, 2, 2, 0, 0, 0))
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            written.writestr(entry, data)
    return made


def _digest(data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
    return f"sha256={digest.decode()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--families", nargs="*", default=[], help="the families of kernels; all")
    given = parser.parse_args()
    shutil.rmtree(given.out, ignore_errors=True)
    given.out.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as place:
        pure, built = Path(place) / "pure", Path(place) / "built"
        build = (sys.executable, "-m", "build", "--no-isolation", "--outdir")
        subprocess.run([*build, str(pure), str(ROOT)], check=True, stdout=subprocess.DEVNULL)
        (archive,), (wheel,) = pure.glob("*.tar.gz"), pure.glob("*.whl")
        shutil.copy(archive, given.out)
        # the kernels are made from the sources of the archive, whose hash the wheel checks
        with tarfile.open(archive) as files:
            files.extractall(place, filter="data")
        tree = Path(place) / archive.name.removesuffix(".tar.gz")
        families = ["--families", *given.families] if given.families else []
        compile_kernels = [sys.executable, str(tree / "packaging" / "kernels.py"), str(built)]
        subprocess.run([*compile_kernels, *families], check=True)
        made = with_kernels(wheel, built, given.out)
    for path in sorted(given.out.iterdir()):
        print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB")
    print(f"{made.name} was made with {platform.python_implementation()} {sys.version.split()[0]}")


if __name__ == "__main__":
    main()
