import pytest

from auctune.domain import InputError
from auctune.service.vendors import HttpVendorParams, Secret

SECRET = Secret("s" * 32)


@pytest.mark.parametrize(
    "url",
    [
        "https://vendor.example/auctune",
        "http://127.0.0.1:8900",
        "http://localhost",
        "http://[::1]:1",
    ],
)
def test_data_go_out_encrypted_or_not_at_all(url: str) -> None:
    assert HttpVendorParams("v", url, SECRET).url == url


@pytest.mark.parametrize(
    "url",
    [
        "http://vendor.example",
        "http://10.0.0.1",
        "http://127.0.0.1.example",
        "ftp://127.0.0.1",
        "vendor.example",
        "",
        "https://",
        "https://user:password@vendor.example",
        "https://vendor.example/?q=1",
        "https://vendor:port",
    ],
)
def test_an_address_that_will_not_do_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="url"):
        HttpVendorParams("v", url, SECRET)


def test_whoever_asks_for_it_may_send_data_in_the_clear() -> None:
    url = "http://vendor:8900"
    assert HttpVendorParams("v", url, SECRET, allow_plaintext=True).url == url
    with pytest.raises(InputError, match="url"):
        HttpVendorParams("v", url, SECRET)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", ""),
        ("answer_seconds", 0.0),
        ("poll_seconds", 21.0),
        ("poll_seconds", float("nan")),
        ("max_result_bytes", 0),
    ],
)
def test_each_setting_is_checked(name: str, value: object) -> None:
    values: dict[str, object] = {"name": "v", "url": "https://v", "secret": SECRET, name: value}
    with pytest.raises(InputError, match=name):
        HttpVendorParams(**values)  # type: ignore[arg-type]


def test_a_secret_does_not_show_in_the_settings() -> None:
    assert "ssss" not in repr(HttpVendorParams("v", "https://v", SECRET))
