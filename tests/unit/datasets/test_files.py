"""Files of all forms hold the same rows; what is wrong is named with its place."""

import csv
import gzip
import io
import json
import struct
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from auctune.datasets import files, read_dataset
from auctune.datasets.files import FileFormat, find_format, iterate_texts
from auctune.domain import InputError
from auctune.domain.dataset import RowKind
from auctune.domain.errors import RepairableError

TEXTS = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], include_characters="\t"), min_size=1, max_size=40
).filter(lambda text: text.strip())
ROWS = st.lists(
    st.fixed_dictionaries({"prompt": st.just("") | TEXTS, "completion": TEXTS}),
    min_size=1,
    max_size=8,
)

Rows = list[dict[str, Any]]
CHAT = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]


def lines_of(rows: Rows) -> bytes:
    return "\n".join(json.dumps(row, ensure_ascii=False) for row in rows).encode()


def csv_of(rows: Rows, delimiter: str = ",") -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def parquet_of(rows: Rows) -> bytes:
    file = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    return file.getvalue()


def parquet_of_columns(names: list[str]) -> bytes:
    file = io.BytesIO()
    table = pyarrow.Table.from_arrays([pyarrow.array(["a"])] * len(names), names)
    parquet.write_table(table, file)
    return file.getvalue()


def parquet_of_bytes(content: bytes) -> bytes:
    """A column that says to be text, and is not."""
    offsets = pyarrow.py_buffer(struct.pack("<ii", 0, len(content)))
    column = pyarrow.Array.from_buffers(
        pyarrow.string(), 1, [None, offsets, pyarrow.py_buffer(content)]
    )
    file = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_arrays([column], ["text"]), file)
    return file.getvalue()


def zstd_of(content: bytes) -> bytes:
    packed: bytes = pyarrow.compress(content, codec="zstd", asbytes=True)
    return packed


FORMS: dict[str, Callable[[Rows], bytes]] = {
    "lines": lines_of,
    "array": lambda rows: json.dumps(rows, indent=1).encode(),
    "array in one line": lambda rows: json.dumps(rows, ensure_ascii=False).encode(),
    "csv": csv_of,
    "csv of a spreadsheet": lambda rows: b"\xef\xbb\xbf" + csv_of(rows, ";"),
    "tab": lambda rows: csv_of(rows, "\t"),
    "parquet": parquet_of,
}


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd_of], ids=["plain", "gzip", "zstd"])
@pytest.mark.parametrize("form", FORMS)
@given(rows=ROWS)
def test_a_file_of_any_form_has_the_same_rows(
    form: str,
    pack: Callable[[bytes], bytes],
    rows: Rows,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("rows") / "file"
    path.write_bytes(pack(FORMS[form](rows)))
    if form == "parquet" and pack is not bytes:
        with pytest.raises(InputError, match="is Parquet within"):
            read_dataset(path)
        return
    found = read_dataset(path)
    assert found.kind is RowKind.COMPLETION
    assert list(found.rows) == rows


@pytest.mark.parametrize("form", ["lines", "array", "parquet"])
def test_chats_are_read_from_files_with_structs(form: str, tmp_path: Path) -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    rows: Rows = [
        {
            "messages": [
                {"role": "user", "content": "a", "name": "ada"},
                {"role": "assistant", "tool_calls": [call]},
            ],
            "tools": '[{"type": "function", "function": {"name": "f"}}]',
        },
    ]
    path = tmp_path / "file"
    first_row = {"messages": [{**one, "name": None, "tool_calls": None} for one in CHAT]}
    path.write_bytes(FORMS[form]([first_row | {"tools": None}, rows[0]]))
    found = read_dataset(path)
    first, second = found.rows
    assert first == {"messages": CHAT}
    assert second["messages"][0] == rows[0]["messages"][0]
    assert second["messages"][1]["tool_calls"][0]["function"]["arguments"] == {"x": 1}
    assert second["tools"] == [{"type": "function", "function": {"name": "f"}}]
    places = {"lines": ("line 1", "line 2")}
    assert found.places == places.get(form, ("row 1", "row 2"))


def test_messages_in_cells_are_json(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "a,\nb"}, {"role": "assistant", "content": '"c"'}]
    path = tmp_path / "chats.csv"
    row = {"id": "7", "messages": json.dumps(messages), "tools": ""}
    path.write_bytes(csv_of([row, row]))
    found = read_dataset(path)
    assert found.rows == ({"messages": messages},) * 2
    assert found.places == ("line 2", "line 3")


def test_messages_in_columns_of_texts_are_messages_too(tmp_path: Path) -> None:
    ask, answer = ([message] for message in CHAT)
    path = tmp_path / "chats.csv"
    path.write_bytes(csv_of([{"prompt": json.dumps(ask), "completion": json.dumps(answer)}]))
    found = read_dataset(path)
    assert found.rows == ({"messages": CHAT},)
    # What only looks like a list is text.
    path.write_bytes(csv_of([{"prompt": "[1, 2]", "completion": "[{x}]"}]))
    assert read_dataset(path).rows == ({"prompt": "[1, 2]", "completion": "[{x}]"},)


def test_ends_of_lines_in_cells_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    path.write_bytes(b'text\r\n"a\r\nb\nc"\r\n"d"\r\n')
    assert [row["text"] for row in read_dataset(path).rows] == ["a\r\nb\nc", "d"]
    assert read_dataset(path).places == ("line 2", "line 5")


def test_a_line_or_a_record_without_end_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    for body in (b"x" * 5_000_000, b'"' + b"x\n" * 2_500_000):
        path.write_bytes(gzip.compress(b"text\n" + body))
        with pytest.raises(RepairableError, match="file: line 2: more than 1,000 characters"):
            read_dataset(path, "file", max_row_characters=1000)


def test_large_batches_of_parquet_are_refused_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_BATCH_BYTES", 100_000)
    path = tmp_path / "file"
    path.write_bytes(parquet_of([{"text": "a"}] * 32 + [{"text": "a" * 10_000}] * 20))
    with pytest.raises(InputError, match="file: rows 33 to 52: has more than 100,000 bytes in 20"):
        read_dataset(path, "file")


def test_a_record_of_csv_is_at_the_line_where_it_begins(tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    path.write_text('text\n"a\nb"\n\n"c"\n')
    assert [where for where, _ in iterate_texts(path, "file")] == ["line 2", "line 5"]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b'[{"text": "a"}, {"text": "b"', "file: row 2: is not JSON"),
        (b'[{"text": "a"} {"text": "b"}]', "file: row 2: is not JSON (no comma before it)"),
        (b'[{"text": "a"}] {}', "file: row 1: is not JSON (text behind the array's end)"),
        (b'[{"text": "a"}, 7]', "file: row 2: is a JSON int, not an object"),
        (b'[{"text": "a"}, {"text": 7}]', "file: row 2: text: 7; expected a text that is not"),
        (b'[{"text": "\xf6"}]', "file: row 1: has bytes that are not UTF-8 at character 11 (f6)"),
        (b"prompt,completion\na,b\nc\n", "file: line 3: has 1 cells; expected 2, as line 1"),
        (b"text,text\na,b\n", "file: line 1: has the column 'text' twice"),
        (b'text\n"a\nb\n', "file: line 2: is no record of CSV (unexpected end of data)"),
        (b"text,mood\na,sad\n", "file: line 2: the key 'mood' is not supported"),
        (b"messages\nhello\n", "file: line 2: messages: is not JSON ("),
        (b"question,answer\na,b\n", "file: line 1: is not JSON"),
        (b",prompt,completion\n0,a,b\n", "file: line 1: has no name for column 1"),
        (b"messages\n" + b"[" * 100_000, "file: line 2: messages: is nested too deeply"),
        (
            b'messages\n"[{""role"": ""user"", ""role"": ""user""}]"\n',
            "file: line 2: messages: the key 'role' appears twice",
        ),
        (b"text," + b"a," * 40_000 + b"b\n", "file: line 1: has 40002 columns"),
        (parquet_of([{"text": date(2026, 1, 2)}]), "file: row 1: has a value that JSON has not ("),
        (parquet_of([{"text": "a", "at": timedelta(1)}]), "file: row 1: has a value that JSON"),
        (parquet_of_columns(["text", "text"]), "file: has the column 'text' twice"),
        (parquet_of_bytes(b"\xff"), "file: cannot be read from row 1 on ("),
        (gzip.compress(b'{"text": "a"}')[:-9], "file: is damaged ("),
        (zstd_of(b'{"text": "a"}' * 99)[:-9], "file: "),
        (gzip.compress(gzip.compress(b"{}")), "file: is compressed twice (gzip, gzip)"),
        (parquet_of([{"text": "a"}])[:-30], "file: cannot be read from row 1 on ("),
        (parquet_of([{"text": b"a"}]), "file: row 1: has a value that JSON has not ("),
        (parquet_of([{"text": "a", "score": 0.5}]), "file: row 1: the key 'score' is not"),
    ],
    # Packed files hold the time.
    ids=range(26),
)
def test_what_is_wrong_is_named_with_its_place(content: bytes, found: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_dataset(path, "file")
    assert str(caught.value).startswith(found)


def test_broken_json_in_an_array_may_be_repaired(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("[{'text': 'a'}]")
    with pytest.raises(RepairableError):
        read_dataset(path)


@pytest.mark.parametrize("form", FORMS)
def test_a_row_of_more_characters_than_allowed_is_refused(form: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(
        FORMS[form]([{"prompt": "", "completion": "x" * size} for size in (5, 200_000)])
    )
    place = "line [23]" if "csv" in form or form in ("lines", "tab") else "row 2"
    with pytest.raises(RepairableError, match=f"file: {place}: more than 1,000 characters"):
        read_dataset(path, "file", max_row_characters=1000)


@pytest.mark.parametrize("pack", [gzip.compress, zstd_of], ids=["gzip", "zstd"])
def test_little_data_does_not_unpack_to_any_amount(
    pack: Callable[[bytes], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_DECOMPRESSED_BYTES", 1 << 20)
    path = tmp_path / "file"
    path.write_bytes(pack(b'{"text": "a"}' + b"\n" * (1 << 21)))
    with pytest.raises(InputError, match="file: decompresses to more than 1,048,576 bytes"):
        read_dataset(path, "file")


def test_rows_of_parquet_are_limited_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_DECOMPRESSED_BYTES", 10_000)
    path = tmp_path / "file"
    path.write_bytes(parquet_of([{"text": "a" * 100}] * 200))
    with pytest.raises(InputError, match="file: decompresses to more than 10,000 bytes"):
        read_dataset(path, "file")


def test_memory_holds_one_element_of_an_array(tmp_path: Path) -> None:
    path = tmp_path / "file"
    row = json.dumps({"text": "x" * 1000})
    path.write_text(f"[{', '.join([row] * 5000)}]")
    assert find_format(path, "file").format is FileFormat.ARRAY
    assert sum(1 for _ in iterate_texts(path, "file", max_characters=2000)) == 5000
