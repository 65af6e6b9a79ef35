"""A form is the same form however the network cuts it."""

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from fastapi import Request
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain import InputError
from auctune.service.http.requests import MultipartUpload, safe_filename

CONTENT = b'{"prompt": "a", "completion": "b"}\r\n--not the boundary\r\n--\r\n'
FORM = (
    b'--cut\r\nContent-Disposition: form-data; name="file"; filename="rows.jsonl"\r\n'
    b"Content-Type: application/octet-stream\r\n\r\n" + CONTENT + b"\r\n"
    b'--cut\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nfine-tune\r\n--cut--\r\n'
)


def form_of(
    pieces: list[bytes], kind: str = "multipart/form-data; boundary=cut"
) -> MultipartUpload:
    left = list(pieces)

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    scope = {"type": "http", "method": "POST", "headers": [(b"content-type", kind.encode())]}
    return MultipartUpload(Request(scope, receive))


def read(form: MultipartUpload) -> bytes:
    async def joined(chunks: AsyncIterator[bytes]) -> bytes:
        return b"".join([chunk async for chunk in chunks])

    return asyncio.run(joined(form.chunks()))


@given(st.lists(st.integers(0, len(FORM)), max_size=12))
def test_where_it_is_cut_makes_no_difference(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(FORM)]
    form = form_of([FORM[a:b] for a, b in pairwise(places)])
    assert read(form) == CONTENT
    assert (form.filename, form.purpose) == ("rows.jsonl", "fine-tune")


@given(st.integers(0, len(FORM) - 5))
def test_a_form_that_ends_early_is_refused(length: int) -> None:
    with pytest.raises(InputError):
        read(form_of([FORM[:length]]))


def test_a_form_that_cannot_be_read_leaves_no_line_on_the_terminal(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(InputError):
        read(form_of([FORM.replace(b"rows.jsonl", b"a\rb")]))
    assert not caplog.records


@given(st.binary(max_size=200))
def test_any_other_bytes_are_refused_and_nothing_else(body: bytes) -> None:
    with pytest.raises(InputError):
        read(form_of([body]))


@given(st.binary(max_size=300))
def test_a_shown_name_prints_on_one_line_and_is_no_path(raw: bytes) -> None:
    name = safe_filename(raw)
    assert name.isprintable()
    assert 1 <= len(name) <= 255
    assert "/" not in name
    assert "\\" not in name


def test_the_token_of_a_page_comes_before_the_file_and_belongs_to_no_other_form() -> None:
    token = b'--cut\r\nContent-Disposition: form-data; name="csrf"\r\n\r\nsecret\r\n'
    seen: list[str] = []

    def form(body: bytes) -> MultipartUpload:
        plain = form_of([body])
        return MultipartUpload(plain._request, seen.append)

    assert read(form(token + FORM)) == CONTENT
    assert read(form(FORM)) == CONTENT
    with pytest.raises(InputError, match="csrf: is not a field"):
        read(form_of([token + FORM]))
    # Without one before the file there is none.
    late = FORM.replace(b"\r\n--cut--\r\n", b"\r\n" + token + b"--cut--\r\n")
    assert read(form(late)) == CONTENT
    assert seen == ["secret", "", ""]
