from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.service.vendors import Secret, read_secret_file, read_secret_variable

TEXT = "0123456789abcdef0123456789abcdef"


def test_a_secret_is_never_shown() -> None:
    assert TEXT not in f"{Secret(TEXT)!r} {Secret(TEXT)} {[Secret(TEXT)]}"
    with pytest.raises(InputError) as caught:
        Secret("too short to be one")
    assert "too short" not in str(caught.value)


def test_file_and_variable_give_the_same_secret(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{TEXT}\n")
    signature = Secret(TEXT).sign("text")
    assert read_secret_file(tmp_path / "secret").sign("text") == signature
    assert read_secret_variable("KEY", {"KEY": f" {TEXT}\n"}).sign("text") == signature


def test_a_secret_that_is_not_there_is_an_error_that_names_its_place(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none"):
        read_secret_file(tmp_path / "none")
    with pytest.raises(InputError, match="KEY: is not set"):
        read_secret_variable("KEY", {})
    (tmp_path / "binary").write_bytes(b"\xff" * 40)
    with pytest.raises(InputError, match="binary"):
        read_secret_file(tmp_path / "binary")


def test_a_signature_with_strange_letters_is_wrong_and_no_crash() -> None:
    assert not Secret(TEXT).matches("text", "é" * 64)
