"""Settings of Weights & Biases: off, or with exactly one place of the key, or offline."""

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.service.config.models import ServiceConfig, read_config
from auctune.service.private_files import write_private
from auctune.service.zones.kinds import check_service

KEY = "key-of-the-operator"


def read(tmp_path: Path, text: str) -> ServiceConfig:
    path = tmp_path / "auctune.toml"
    path.write_text(f"[wandb]\n{text}\n")
    return read_config(path)


@pytest.mark.parametrize("text", ["", 'entity = "team"'])
def test_without_a_key_it_is_off(tmp_path: Path, text: str) -> None:
    assert not read(tmp_path, text).wandb.is_enabled
    check_service(read(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('key_file = "a"\nkey_variable = "B"', "key_variable and key_file are given"),
        ('key_file = "a"\noffline = true', "key_file and offline are given"),
        ('key_file = "a"\nbase_url = "here"', "base_url: 'here'; expected http"),
        ('key = "secret"', "key"),
    ],
)
def test_what_is_contradictory_is_one_error(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(InputError, match=error) as caught:
        read(tmp_path, text)
    assert "wandb" in caught.value.place


def test_the_key_is_read_from_a_private_file_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As where it is installed.
    monkeypatch.setitem(sys.modules, "wandb", _module())
    config = read(tmp_path, 'key_file = "wandb.key"')
    with pytest.raises(InputError, match=r"wandb\.key_file: cannot be read"):
        check_service(config)
    write_private(tmp_path / "wandb.key", f"{KEY}\n")
    check_service(config)
    assert config.wandb.environment()["WANDB_API_KEY"] == KEY
    (tmp_path / "wandb.key").chmod(0o644)
    with pytest.raises(InputError, match=r"wandb\.key_file: .* is open to other accounts"):
        check_service(config)
    with pytest.raises(InputError, match=r"wandb\.key_variable: is not set; expected NO_SUCH_KEY"):
        check_service(read(tmp_path, 'key_variable = "NO_SUCH_KEY"'))


@pytest.mark.parametrize("has_folder", [False, True])
def test_a_start_without_the_package_is_one_error_that_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_folder: bool
) -> None:
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    # Files of runs are in a folder of this name, which Python takes for a package.
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    if has_folder:
        (tmp_path / "wandb").mkdir()
    config = read(tmp_path, "offline = true")
    with pytest.raises(InputError) as caught:
        config.wandb.check()
    assert str(caught.value) == (
        "wandb: needs wandb, which is not installed; expected pip install wandb"
    )


def _module() -> object:
    module = type(sys)("wandb")
    module.__spec__ = ModuleSpec("wandb", None, origin="wandb/__init__.py")
    return module
