"""What a base's name stands for: a mistyped path is an error, and never a name on the hub."""

from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.domain.base_name import resolve_base


def test_a_folder_is_looked_for_beside_the_file_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models" / "llama").mkdir(parents=True)
    (tmp_path / "elsewhere" / "llama").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "elsewhere")
    beside = tmp_path / "models"
    assert resolve_base("llama", beside) == str(beside / "llama")
    assert resolve_base("models/llama", tmp_path) == str(beside / "llama")
    assert resolve_base(str(beside / "llama"), Path("anywhere")) == str(beside / "llama")
    assert resolve_base("llama", Path()) == str(tmp_path / "elsewhere" / "llama")


def test_a_name_on_the_hub_has_an_organization_or_says_so(tmp_path: Path) -> None:
    assert resolve_base("someone/model-7B", tmp_path) == "hub:someone/model-7B"
    assert resolve_base("hub:gpt2", tmp_path) == "hub:gpt2"
    assert resolve_base("hub:someone/model", tmp_path) == "hub:someone/model"
    assert resolve_base("tiny", tmp_path) == "tiny"


@pytest.mark.parametrize(
    "name", ["gpt2", "models/lama", "./models/llama/", "/models/llama", "models/a/b", "~/x", ""]
)
def test_a_path_that_is_not_there_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "models").mkdir()
    with pytest.raises(InputError, match=r"there is no such folder; expected .* hub:NAME"):
        resolve_base(name, tmp_path)
    with pytest.raises(InputError, match="is not a name on the hub"):
        resolve_base("hub:../weights", tmp_path)
