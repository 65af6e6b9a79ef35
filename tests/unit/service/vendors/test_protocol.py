import pickle
from decimal import Decimal
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain import InputError
from auctune.service.vendors import (
    DatasetSummary,
    Fault,
    Order,
    VendorError,
    VendorToken,
    summarize,
)
from auctune.service.vendors.protocol import check_url, sanitize

TEXT = "0123456789abcdef0123456789abcdef"
TOKEN = VendorToken(TEXT)
BODY = b'{"type": "order.updated"}'


@given(st.text(max_size=500))
def test_untrusted_text_becomes_one_short_printable_line(text: str) -> None:
    line = sanitize(text)
    assert len(line) <= 200
    assert line.isprintable()


def test_a_short_text_stays_as_it_is() -> None:
    assert sanitize("no rows, sorry") == "no rows, sorry"


def test_an_error_names_vendor_fault_and_detail() -> None:
    error = VendorError("mender", Fault.PRICE, "'\x1b[2J'\n is no money")
    assert str(error) == "vendor mender: price: '\ufffd[2J' is no money"


def test_an_error_survives_a_process_boundary() -> None:
    error = pickle.loads(pickle.dumps(VendorError("mender", Fault.LATE, "no answer")))
    assert (error.vendor, error.fault, error.detail) == ("mender", Fault.LATE, "no answer")


def test_a_token_is_never_shown() -> None:
    assert TEXT not in f"{TOKEN!r} {TOKEN} {[TOKEN]}"


@pytest.mark.parametrize(
    "value", ["too short to be one", "with a blank " * 4, "ö" * 32, "a\n" * 20]
)
def test_a_token_that_will_not_do_is_refused_without_being_shown(value: str) -> None:
    with pytest.raises(InputError, match="the token") as caught:
        VendorToken(value, "the token")
    assert value not in str(caught.value)


@given(st.text())
def test_only_the_token_itself_authorizes(header: str) -> None:
    assert TOKEN.matches(f"Bearer {TEXT}")
    assert not TOKEN.matches(header)


@pytest.mark.parametrize(
    "url",
    [
        "https://vendor.example/auctune",
        "http://127.0.0.1:8900",
        "http://localhost",
        "http://[::1]:1",
    ],
)
def test_tokens_and_data_sets_travel_over_tls_or_loopback(url: str) -> None:
    check_url(url, "url")


@pytest.mark.parametrize(
    "url",
    [
        "http://vendor.example",
        "http://10.0.0.1",
        "http://0.0.0.0:8420",
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
def test_a_url_that_is_neither_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="url"):
        check_url(url, "url")


@given(st.lists(st.sampled_from([b"", b"  ", b"x", b" y ", b"\x00", b"{}"])), st.booleans())
def test_rows_are_lines_that_are_not_blank(tmp_path: Path, lines: list[bytes], ends: bool) -> None:
    data = b"\n".join(lines) + (b"\n" if ends else b"")
    path = tmp_path / "data"
    path.write_bytes(data)
    rows = sum(bool(line.strip()) for line in lines)
    assert summarize(path) == DatasetSummary(rows, len(data), sha256(data).hexdigest())


def test_a_line_longer_than_a_piece_is_one_row(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"x" * (3 << 20) + b"\n" + b" " * (2 << 20) + b"y")
    assert summarize(path).rows == 2


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none"):
        summarize(tmp_path / "none")


@pytest.mark.parametrize("name", ["", "a/b", "..", "a b", "x" * 65, "ö", "a\n"])
def test_an_order_has_an_id_that_can_be_part_of_a_path(name: str) -> None:
    with pytest.raises(InputError, match="id"):
        Order(name, "offer", Decimal(1), DatasetSummary(3, 100, "ab" * 32))
