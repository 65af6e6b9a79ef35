"""Build a release of the last commit: sdist, wheel, bill of materials and SHA256SUMS.

The same commit gives the same bytes, whoever builds it and when. `make release` calls this with the
setuptools of `[build-system]` and with cyclonedx-py, which is not among the packages of .venv.
"""

import argparse
import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

_ROOT = Path(__file__).resolve().parent.parent
_BUILD = "import setuptools.build_meta as b, sys; b.build_{}(sys.argv[1])"
_SDIST = ".tar.gz"
# What users install; tools of developers are locked beside it. The CUDA build of torch has triton.
_SHIPPED = ("auctune[all]", "triton")


def main() -> None:
    """Write the files of a release to a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="folder, such as dist")
    parser.add_argument("--cyclonedx", metavar="PROGRAM", help="without it there is no SBOM")
    options = parser.parse_args()
    if changes := _git("status", "--porcelain").decode():
        sys.exit(f"release: there are changes since the last commit; commit them first:\n{changes}")
    # Wheels and bills of materials have their times from it.
    os.environ["SOURCE_DATE_EPOCH"] = _git("log", "-1", "--format=%ct").decode().strip()
    os.umask(0o022)
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        files = build_distributions(Path(folder))
    if options.cyclonedx:
        (sdist,) = (name for name in files if name.endswith(_SDIST))
        name = sdist.removesuffix(_SDIST) + ".cdx.json"
        files[name] = bill_of_materials(options.cyclonedx)
    for name, content in files.items():
        (options.out / name).write_bytes(content)
    sums = "".join(f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n" for name in sorted(files))
    (options.out / "SHA256SUMS").write_text(sums)
    print(sums, end="")


def build_distributions(folder: Path) -> dict[str, bytes]:
    """Build the sdist from what git has, and the wheel from the sdist; return them by name."""
    _extract(_git("archive", "--prefix=source/", "HEAD"), folder)
    sdist = _build("sdist", folder / "source", folder)
    content = normalized(sdist.read_bytes(), int(os.environ["SOURCE_DATE_EPOCH"]))
    _extract(gzip.decompress(content), folder)
    wheel = _build("wheel", folder / sdist.name.removesuffix(_SDIST), folder)
    return {sdist.name: content, wheel.name: wheel.read_bytes()}


def normalized(sdist: bytes, time: int) -> bytes:
    """Return an sdist without the owners, umask and times that setuptools leaves in it."""
    packed = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(sdist)) as found,
        gzip.GzipFile("", "wb", fileobj=packed, mtime=time) as stream,
        tarfile.open(fileobj=stream, mode="w") as out,
    ):
        for member in sorted(found.getmembers(), key=lambda member: member.name):
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mtime, member.pax_headers = time, {}
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            out.addfile(member, found.extractfile(member) if member.isfile() else None)
    return packed.getvalue()


def bill_of_materials(cyclonedx: str) -> bytes:
    """Return a CycloneDX document, in JSON, of all that the wheel and its extras install."""
    # Both have the same releases: the one also torch's, of which each index has another build; the
    # other has hashes.
    files = [(_ROOT / name).read_text() for name in ("constraints.txt", "requirements.txt")]
    locked = [line for file in files for line in file.replace("\\\n", "").splitlines()]
    lines = {canonicalize_name(line.partition("==")[0]): line for line in locked if "==" in line}
    text = "\n".join(lines[name] for name in sorted(shipped_names() & lines.keys())).encode()
    command = [cyclonedx, "requirements", "--output-reproducible", "--validate"]
    command += ["--pyproject", str(_ROOT / "pyproject.toml"), "-"]
    # It warns that such a list has no graph of dependencies.
    env = {**os.environ, "PYTHONWARNINGS": "ignore"}
    return subprocess.run(command, input=text, check=True, stdout=subprocess.PIPE, env=env).stdout


def shipped_names() -> set[NormalizedName]:
    """Return the names of all packages that the wheel and its extras require, directly or not."""
    found: set[tuple[str, str]] = set()
    waiting = [Requirement(text) for text in _SHIPPED]
    while waiting:
        one = waiting.pop()
        for extra in {"", *one.extras} - {extra for name, extra in found if name == one.name}:
            found.add((one.name, extra))
            needed = map(Requirement, requires(one.name) or ())
            waiting += [
                x for x in needed if x.marker is None or x.marker.evaluate({"extra": extra})
            ]
    return {canonicalize_name(name) for name, _ in found}


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=_ROOT, check=True, stdout=subprocess.PIPE).stdout


def _extract(content: bytes, folder: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(folder, filter="data")


def _build(kind: str, source: Path, out: Path) -> Path:
    command = [sys.executable, "-c", _BUILD.format(kind), str(out)]
    subprocess.run(command, cwd=source, check=True, stdout=subprocess.DEVNULL)
    (built,) = out.glob("*.whl" if kind == "wheel" else f"*{_SDIST}")
    return built


if __name__ == "__main__":
    main()
