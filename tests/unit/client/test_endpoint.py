"""Where commands find a service, and to whom they tell its key."""

from pathlib import Path

import pytest

from auctune.client import UnreachableError, resolve_endpoint
from auctune.client.endpoint import StartupStatus, read_startup_status
from auctune.domain import InputError


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "url").write_text("http://127.0.0.1:8420\n")
    (tmp_path / "first-key").write_text("sk-own\n")
    return tmp_path


def test_a_service_on_this_machine_is_found_by_its_folder(data: Path) -> None:
    found = resolve_endpoint(None, None, data)
    assert (found.url, found.key) == ("http://127.0.0.1:8420", "sk-own")
    assert found.is_local


def test_what_is_given_counts_more_than_what_lies_in_the_folder(data: Path) -> None:
    found = resolve_endpoint("https://market.example/v1/", "sk-given", data)
    assert (found.url, found.key) == ("https://market.example", "sk-given")
    assert not found.is_local


def test_a_key_from_the_folder_is_told_to_that_service_only(data: Path) -> None:
    with pytest.raises(InputError, match="--api-key: is missing"):
        resolve_endpoint("http://127.0.0.1:8421", None, data)
    assert resolve_endpoint("http://127.0.0.1:8420", None, data).key == "sk-own"


def test_a_key_is_in_no_text_about_an_address(data: Path) -> None:
    assert "sk-own" not in repr(resolve_endpoint(None, None, data))


@pytest.mark.parametrize(
    ("url", "key", "message"),
    [
        (None, "sk-a", "--url: is missing, and no service runs in"),
        ("market.example", "sk-a", "--url: 'market.example'; expected a URL such as"),
        ("ftp://market.example", "sk-a", "--url: 'ftp://market.example'; expected a URL"),
        ("http://a:99999", "sk-a", "--url: 'http://a:99999'; expected a URL"),
        ("http://a", "sk-ä", "--api-key: has a space or a character outside ASCII"),
        ("http://a", "sk a", "--api-key: has a space or a character outside ASCII"),
    ],
)
def test_what_cannot_be_is_named_by_its_option(
    tmp_path: Path, url: str | None, key: str, message: str
) -> None:
    with pytest.raises(InputError) as refused:
        resolve_endpoint(url, key, tmp_path)
    assert str(refused.value).startswith(message)


def test_a_service_that_is_starting_is_not_taken_for_none(tmp_path: Path) -> None:
    with StartupStatus(tmp_path) as status:
        status.write("measuring the device")
        status.write("starting zone sites")
        with pytest.raises(UnreachableError, match="is starting: starting zone sites; try again"):
            resolve_endpoint(None, "sk-a", tmp_path)
        assert resolve_endpoint("http://a", "sk-a", tmp_path).url == "http://a"
        (tmp_path / "url").write_text("http://127.0.0.1:8420\n")
        assert resolve_endpoint(None, "sk-a", tmp_path).url == "http://127.0.0.1:8420"
    assert [path.name for path in tmp_path.iterdir()] == ["url"]


def test_of_two_that_start_in_one_folder_the_first_is_told_of(tmp_path: Path) -> None:
    with StartupStatus(tmp_path) as first:
        first.write("measuring the device")
        with StartupStatus(tmp_path) as second:
            second.write("looking at its folder")
        assert read_startup_status(tmp_path) == "measuring the device"
    assert read_startup_status(tmp_path) is None


def test_what_a_service_left_that_was_killed_while_it_started_means_nothing(tmp_path: Path) -> None:
    (tmp_path / "starting").write_text("measuring the device")
    with pytest.raises(InputError, match="no service runs"):
        resolve_endpoint(None, "sk-a", tmp_path)
