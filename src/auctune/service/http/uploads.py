"""Streaming parser of a multipart upload of one file; only small fields are buffered."""

import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from auctune.domain import InputError
from auctune.service.files.repository import Purpose

# The parser logs a warning for each invalid form, which the client gets as an error anyway.
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)

TOKEN = "csrf"
"""Field of a form with the token of its session."""

_MAX_FIELD_BYTES = 1024
_EXPECTED = "multipart/form-data with the fields file and purpose"


class MultipartUpload:
    """Form of POST /v1/files; filename and purpose are set once `chunks` is exhausted.

    Args:
        check_token: for a form of a page, which has a field `csrf` before its file: called with
            the field, or "", before the file is read.
    """

    def __init__(self, request: Request, check_token: Callable[[str], None] | None = None) -> None:
        # Cut: the parser takes 0.2 s for the longest header that the server accepts.
        kind, options = parse_options_header(request.headers.get("content-type", "")[:1000])
        boundary = options.get(b"boundary", b"")
        if kind != b"multipart/form-data" or not 1 <= len(boundary) <= 70:
            raise InputError("Content-Type", "is not a form with a file", _EXPECTED)
        self.filename = ""
        self.purpose = Purpose.TRAINING
        self._request = request
        self._parts = _PartCollector(check_token)
        self._parser = MultipartParser(boundary, self._parts.callbacks())

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for received in self._request.stream():
                self._parser.write(received)
                for chunk in self._parts.take():
                    yield chunk
            self._parser.finalize()
        except FormParserError:
            raise InputError("body", "is not a valid form", _EXPECTED) from None
        self._check()

    def _check(self) -> None:
        parts = self._parts
        if not parts.is_over:
            raise InputError("body", "ends before the end of the form", _EXPECTED)
        if parts.filename is None:
            raise InputError("file", "is missing", "a file of JSON lines")
        if not parts.size:
            raise InputError("file", "is empty", "a file of JSON lines")
        purpose = parts.fields.get("purpose")
        if purpose != Purpose.TRAINING.value.encode():
            found = "is missing" if purpose is None else "is not offered"
            raise InputError("purpose", found, repr(Purpose.TRAINING.value))
        self.filename = safe_filename(parts.filename)


def safe_filename(raw: bytes) -> str:
    """Return the last part of a file name, without characters that are not printable."""
    text = raw.decode("utf-8", errors="replace").replace("\\", "/").rpartition("/")[2]
    return "".join(character for character in text if character.isprintable())[:255] or "data.jsonl"


class _PartCollector:
    """Callbacks of the parser: checks fields, and collects the content of the file."""

    def __init__(self, check_token: Callable[[str], None] | None) -> None:
        self._check_token = check_token
        self._names = {"file", "purpose", *([TOKEN] if check_token is not None else [])}
        self.fields: dict[str, bytes] = {}
        self.filename: bytes | None = None
        self.size = 0
        self.is_over = False
        self._ready: list[bytes] = []
        self._name = ""
        self._header = b""
        self._headers: dict[bytes, bytes] = {}
        self._value = b""

    def take(self) -> list[bytes]:
        ready, self._ready = self._ready, []
        return ready

    def callbacks(self) -> Any:
        return {
            "on_part_begin": self._part,
            "on_header_field": self._header_field,
            "on_header_value": self._header_value,
            "on_header_end": self._header_end,
            "on_headers_finished": self._headers_finished,
            "on_part_data": self._data,
            "on_end": self._end,
        }

    def _part(self) -> None:
        self._headers, self._header, self._value = {}, b"", b""

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        self._headers[self._header.lower()] = self._value
        self._header, self._value = b"", b""

    def _headers_finished(self) -> None:
        kind, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        name = options.get(b"name", b"").decode("utf-8", errors="replace")
        if kind != b"form-data" or name not in self._names:
            raise InputError(name[:64] or "body", "is not a field of this form", _EXPECTED)
        if name in self.fields or (name == "file" and self.filename is not None):
            raise InputError(name, "is given twice", "one field of this name")
        self._name = name
        if name == "file":
            if self._check_token is not None:
                self._check_token(self.fields.get(TOKEN, b"").decode(errors="replace"))
            self.filename = options.get(b"filename", b"")
        else:
            self.fields[name] = b""

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._name == "file":
            self.size += end - start
            self._ready.append(data[start:end])
            return
        self.fields[self._name] += data[start:end]
        if len(self.fields[self._name]) > _MAX_FIELD_BYTES:
            raise InputError(self._name, f"has more than {_MAX_FIELD_BYTES} bytes", _EXPECTED)

    def _end(self) -> None:
        self.is_over = True
