"""What a market learns of its base, and how little of it twice."""

import shutil
from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.engine.base_facts import learn_base
from auctune.engine.runtime.nodes import NodeSettings
from auctune.train.base import Base

pytest_plugins = ["support.tiny_bases"]
pytestmark = pytest.mark.slow


def test_a_base_is_measured_once_and_asked_again_only_if_its_files_change(
    tiny_base: Base, tmp_path: Path
) -> None:
    folder, kept = tmp_path / "base", tmp_path / "kept"
    shutil.copytree(tiny_base.source, folder)
    settings = NodeSettings(str(folder), str(tmp_path))
    told: list[str] = []

    def learn() -> list[str]:
        told.clear()
        facts.append(learn_base(settings, kept, lambda what, share: told.append(what)))
        return told

    facts = [learn_base(settings, kept, lambda what, share: told.append(what))]
    assert "measuring the device: mixed loads" in told
    assert (facts[0].digest, facts[0].context_tokens) == (tiny_base.digest, 512)
    assert facts[0].profile.origin.num_threads == 1
    assert learn() == []
    (folder / "config.json").touch()
    assert learn() == [f"loading the base {folder.name}"]
    assert facts[0] == facts[1] == facts[2]


def test_a_base_that_is_not_there_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with pytest.raises(InputError, match="no-such-folder"):
        learn_base(NodeSettings("./no-such-folder", str(tmp_path)), kept)
    assert list(kept.iterdir()) == []
