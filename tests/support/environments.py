"""Environments with auctune's wheel and some of its extras, of what is installed here: no index."""

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from auctune.extras import required_packages
from support.pages import ROOT

_BUILD = "import setuptools.build_meta as b, sys; print(b.build_wheel(sys.argv[1]))"


def build_wheel(folder: Path) -> Path:
    """Build the wheel of what git knows of the checkout, or would add; return its path."""
    source, out = folder / "source", folder / "wheel"
    out.mkdir(parents=True)
    listed = ("git", "ls-files", "--cached", "--others", "--exclude-standard", "src", "*.toml")
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in (*names.splitlines(), "README.md", "LICENSE"):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    command: list[str | Path] = [sys.executable, "-c", _BUILD, out]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (wheel,) = out.glob("*.whl")
    return wheel


def make_environment(folder: Path, wheel: Path, *extras: str) -> Path:
    """Make an environment with a wheel and what it and its extras require; return its Python."""
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    (site,) = folder.glob("lib/python*/site-packages")
    wanted = [*required_packages(), *(one for extra in extras for one in required_packages(extra))]
    for name in sorted(closure(wanted)):
        link_distribution(name, site)
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    offline = ["--no-index", "--no-deps", "--disable-pip-version-check", "--no-compile"]
    # What this process can import is of no concern there.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([*pip, *offline, wheel], check=True, env=env)
    return python


def closure(requirements: Iterable[Requirement]) -> set[str]:
    """Return the names of all installed distributions that these requirements lead to."""
    found: set[tuple[str, frozenset[str]]] = set()
    waiting = list(requirements)
    while waiting:
        one = waiting.pop()
        key = (canonicalize_name(one.name), frozenset(one.extras))
        if key in found:
            continue
        found.add(key)
        for text in distribution(one.name).requires or ():
            needed = Requirement(text)
            contexts = [{"extra": extra} for extra in ("", *one.extras)]
            if needed.marker is None or any(map(needed.marker.evaluate, contexts)):
                waiting.append(needed)
    return {name for name, _ in found}


def link_distribution(name: str, site: Path) -> None:
    """Link an installed distribution's packages and modules into another environment."""
    installed = distribution(name)
    files = installed.files or ()
    tops = {file.parts[0] for file in files} - {"..", "__pycache__"}
    for top in tops:
        target = Path(str(installed.locate_file(top)))
        if target.exists() and not (site / top).exists():
            (site / top).symlink_to(target)


def num_bytes(site: Path) -> int:
    """Return the size of what is in an environment; links count as what they lead to."""
    files = (path for top in site.iterdir() for path in _files(top.resolve()))
    return sum(path.stat().st_size for path in files)


def _files(path: Path) -> Iterable[Path]:
    if path.is_file():
        return [path]
    return [one for one in path.rglob("*") if one.is_file() and "__pycache__" not in one.parts]
