"""A release: what a clone of the last commit makes, the same bytes each time.

cyclonedx-py is in the folder that AUCTUNE_DEPLOY_TOOLS names; `make deploy-check` makes it.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.environments import closure
from support.pages import ROOT

pytestmark = pytest.mark.slow

NAMES = {"auctune-0.1.0-py3-none-any.whl", "auctune-0.1.0.tar.gz"}
INPUTS = ("src", "deploy", "*.toml", "*.txt", "README.md", "LICENSE", ".gitignore")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository of one commit, of what a release is made from."""
    folder = tmp_path / "clone"
    listed = ("git", "ls-files", "--cached", "--others", "--exclude-standard", *INPUTS)
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in names.splitlines():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    author = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    for command in (("init", "--quiet"), ("add", "--all"), (*author, "commit", "-qm", "all")):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


def release(clone: Path, out: Path, *options: str, umask: int = 0o022, **env: str) -> str:
    """Make a release; why it was refused, if it was."""
    done = subprocess.run(
        [sys.executable, clone / "deploy" / "release.py", out, *options],
        capture_output=True,
        text=True,
        check=False,
        umask=umask,
        env={**os.environ, **env},
    )
    return done.stderr if done.returncode else ""


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_a_commit_gives_the_same_bytes_whoever_builds_it(clone: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert release(clone, first) == ""
    # Times of files, umask, time zone and locale are those of another machine.
    for file in clone.rglob("*.py"):
        os.utime(file, (1_000_000_000, 1_000_000_000))
    assert release(clone, second, umask=0o077, TZ="Asia/Tokyo", LC_ALL="C.UTF-8") == ""
    made = contents(first)
    assert made == contents(second)
    sums = dict(line.split("  ")[::-1] for line in made.pop("SHA256SUMS").decode().splitlines())
    assert sums == {name: hashlib.sha256(content).hexdigest() for name, content in made.items()}
    assert made.keys() == NAMES
    with tarfile.open(first / "auctune-0.1.0.tar.gz") as sdist:
        packed = {name.partition("/src/")[2] for name in sdist.getnames()}
    with zipfile.ZipFile(first / "auctune-0.1.0-py3-none-any.whl") as wheel:
        installed = {name for name in wheel.namelist() if name.startswith("auctune/")}
    assert "auctune/service/page/templates/base.html" in installed
    assert installed <= packed


def test_a_release_of_changes_that_are_not_committed_is_refused(
    clone: Path, tmp_path: Path
) -> None:
    (clone / "src" / "auctune" / "new.py").write_text("")
    assert "src/auctune/new.py" in release(clone, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_bill_of_materials_has_what_the_wheel_and_its_extras_install(
    clone: Path, tmp_path: Path
) -> None:
    cyclonedx = shutil.which("cyclonedx-py", path=os.environ.get("AUCTUNE_DEPLOY_TOOLS", ""))
    if cyclonedx is None:
        pytest.skip("AUCTUNE_DEPLOY_TOOLS has no cyclonedx-py; `make deploy-check` installs it")
    for out in ("first", "second"):
        assert release(clone, tmp_path / out, "--cyclonedx", cyclonedx) == ""
    made = contents(tmp_path / "first")
    assert made == contents(tmp_path / "second")
    bill = json.loads(made["auctune-0.1.0.cdx.json"])
    assert "serialNumber" not in bill
    assert bill["metadata"]["component"]["version"] == "0.1.0"
    parts = {part["name"]: part for part in bill["components"]}
    locked = dict(
        line.partition(" ")[0].split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    )
    wanted = closure([Requirement("auctune[all]")]) | {"triton"}
    assert {canonicalize_name(name) for name in parts} == wanted & locked.keys()
    assert parts.keys().isdisjoint({"pytest", "sphinx", "mypy"})
    for name, part in parts.items():
        assert part["version"] == locked[canonicalize_name(name)]
        assert name == "torch" or part["externalReferences"][0]["hashes"]
