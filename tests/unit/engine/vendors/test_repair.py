import json
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auctune.datasets import read_dataset
from auctune.domain import InputError, Quote
from auctune.domain.dataset import RowKind
from auctune.engine.vendors import Action, DropReason, RepairParams, RepairReport, RepairVendor

MESSY = "\n".join(
    [
        '{"prompt": "What is a bid?", "completion": " An offer to pay."}',
        '{"instruction": "Name the auction", "input": "of Vickrey", "output": "second price",}',
        "{'question': 'What is a slot?', 'answer': 'A span of time.'}",
        "",
        '{"prompt": "WHAT is a bid?", "completion": "An offer  to pay."}',
        '{"prompt": "cut off", "comple',
        '{"label": 3}',
        '{"prompt": "nothing", "completion": "  "}',
        '{"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello!"}]}',
        '{"prompt": "Where?", "completion": "In the cafÃ©."}',
    ]
)


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "data.jsonl"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_a_messy_file_becomes_a_valid_one_with_an_account_of_every_line(tmp_path: Path) -> None:
    vendor = RepairVendor()
    source, target = write(tmp_path, MESSY), tmp_path / "clean.jsonl"
    report = vendor.repair(source, target)
    dataset = read_dataset(target)
    assert dataset.kind is RowKind.COMPLETION
    assert dataset.rows == (
        {"prompt": "What is a bid?", "completion": " An offer to pay."},
        {"prompt": "Name the auction\n\nof Vickrey\n", "completion": "second price"},
        {"prompt": "What is a slot?\n", "completion": "A span of time."},
        {"prompt": "Hi\n", "completion": "Hello!"},
        {"prompt": "Where?", "completion": "In the café."},
    )
    assert (report.rows_in, report.rows_out) == (9, 5)
    assert report.actions == {
        Action.JSON: 2,
        Action.SCHEMA: 3,
        Action.KIND: 2,
        Action.TEXT: 1,
    }
    assert [(row.line, row.reason) for row in report.dropped] == [
        (5, DropReason.DUPLICATE),
        (6, DropReason.NOT_JSON),
        (7, DropReason.UNKNOWN_SCHEMA),
        (8, DropReason.EMPTY),
    ]
    assert [example.line for example in report.examples] == [2, 3, 9, 10]
    assert "café" in report.examples[-1].after


def test_a_report_survives_json(tmp_path: Path) -> None:
    report = RepairVendor().repair(write(tmp_path, MESSY), tmp_path / "clean.jsonl")
    assert RepairReport.from_json(json.loads(json.dumps(report.to_json()))) == report


def test_the_price_counts_rows_and_has_four_decimals(tmp_path: Path) -> None:
    params = RepairParams("scrub", Decimal("0.5"), Decimal("0.00125"), delay=3)
    quote = RepairVendor(params).quote(write(tmp_path, MESSY))
    assert quote == Quote("scrub", Decimal("0.5112"), 3)
    assert quote is not None
    assert quote.price.as_tuple().exponent == -4


@pytest.mark.parametrize("text", [b"", b"\n\n", b"hello", b"\x00\xff\x80", b"[]", b'{"text": ""}'])
def test_nothing_usable_means_no_quote_and_no_file(tmp_path: Path, text: bytes) -> None:
    vendor, source = RepairVendor(), write(tmp_path, text)
    assert vendor.quote(source) is None
    with pytest.raises(InputError, match="no usable row"):
        vendor.repair(source, tmp_path / "clean.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["data.jsonl"]


def test_a_file_that_is_missing_is_the_callers_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        RepairVendor().quote(tmp_path / "none.jsonl")


def test_a_pretty_printed_array_is_read_with_its_lines(tmp_path: Path) -> None:
    rows = [{"text": "the first one"}, {"text": ""}, {"text": "another thing"}]
    source = write(tmp_path, json.dumps(rows, indent=2))
    report = RepairVendor().repair(source, tmp_path / "clean.jsonl")
    assert report.rows_out == 2
    assert [(row.line, row.reason) for row in report.dropped] == [(5, DropReason.EMPTY)]


def test_rows_of_an_array_on_one_line_are_told_apart(tmp_path: Path) -> None:
    texts = ["one thing to say", "a second thing", "one thing to say!", "a second thing!"]
    source = write(tmp_path, json.dumps([{"text": text} for text in texts]))
    report = RepairVendor(RepairParams(similarity=0.7)).repair(source, source)
    assert report.rows_out == 2
    assert [row.reason for row in report.dropped] == [DropReason.NEAR_DUPLICATE] * 2


def test_messages_behind_the_last_answer_are_left_out(tmp_path: Path) -> None:
    messages = [
        {"role": "user", "content": "Where?"},
        {"role": "assistant", "content": "Here."},
        {"role": "user", "content": "Thanks"},
        {"role": "assistant", "content": " "},
    ]
    for count in (2, 3, 4):
        source = write(tmp_path, json.dumps({"messages": messages[:count]}))
        report = RepairVendor().repair(source, source)
        assert read_dataset(source).rows == ({"messages": messages[:2]},)
        assert report.actions.get(Action.TURNS, 0) == (count > 2)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252"])
def test_other_encodings_are_read_and_counted(tmp_path: Path, encoding: str) -> None:
    source = write(tmp_path, '{"text": "Ein Gebäude"}'.encode(encoding))
    report = RepairVendor().repair(source, source)
    assert read_dataset(source).rows == ({"text": "Ein Gebäude"},)
    assert report.actions == {Action.ENCODING: 1}


def test_rows_in_other_languages_go_and_short_ones_stay(tmp_path: Path) -> None:
    texts = [
        "The market decides at once and for good whether a task is admitted and what it pays.",
        "Der Markt entscheidet sofort und endgültig, ob eine Aufgabe läuft und was sie kostet.",
        "Guten Tag!",
    ]
    source = write(tmp_path, "\n".join(json.dumps({"text": text}) for text in texts))
    report = RepairVendor(RepairParams(languages=("en",))).repair(source, source)
    assert [(row.line, row.reason, row.note) for row in report.dropped] == [
        (2, DropReason.LANGUAGE, "de")
    ]


def test_lengths_are_kept_within_bounds(tmp_path: Path) -> None:
    source = write(tmp_path, "\n".join(json.dumps({"text": "ab " * n}) for n in (1, 3, 9)))
    params = RepairParams(min_characters=3, max_characters=10)
    report = RepairVendor(params).repair(source, source)
    assert [(row.line, row.reason) for row in report.dropped] == [
        (1, DropReason.TOO_SHORT),
        (3, DropReason.TOO_LONG),
    ]


@pytest.mark.parametrize(
    ("setting", "place"),
    [
        ({"name": ""}, "name"),
        ({"price": Decimal(-1)}, "price"),
        ({"price_per_row": Decimal("NaN")}, "price_per_row"),
        ({"delay": -1}, "delay"),
        ({"min_characters": 0}, "min_characters"),
        ({"similarity": 1.5}, "similarity"),
        ({"languages": ("xx",)}, "languages"),
    ],
)
def test_wrong_parameters_are_named(setting: dict[str, Any], place: str) -> None:
    with pytest.raises(InputError, match=place):
        RepairParams(**setting)


TEXT = st.text(max_size=30) | st.sampled_from(["cafÃ©", "\u3000Ã©", " a\n\n\n\n\nb ", "12", "a 13"])
PART = TEXT | st.none() | st.integers() | st.lists(TEXT, max_size=2)
TURN = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["user", "assistant", "system", "tool"]),
        "from": st.sampled_from(["human", "gpt"]),
        "content": PART,
        "value": PART,
    },
)
ROW = st.fixed_dictionaries(
    {},
    optional={
        "messages": st.lists(TURN, max_size=3),
        "conversations": st.lists(TURN, max_size=3),
        **dict.fromkeys(("prompt", "completion", "text", "instruction", "input", "output"), PART),
    },
)
LINE = (
    ROW.map(json.dumps)
    | ROW.map(repr)
    | ROW.map(lambda row: json.dumps(row, ensure_ascii=False) + ",")
    | TEXT
    | TEXT.map(json.dumps)
).map(lambda line: line.encode("utf-8", errors="surrogatepass"))
JUNK = st.lists(LINE | st.binary(max_size=40), max_size=8).map(b"\n".join)
KINDS = st.sampled_from([None, RowKind.CHAT, RowKind.COMPLETION, RowKind.TEXT])


@pytest.mark.slow
@given(junk=JUNK, kind=KINDS)
@settings(max_examples=300)
def test_any_junk_gives_no_quote_or_a_valid_file_that_repair_leaves_as_it_is(
    junk: bytes, kind: RowKind | None
) -> None:
    vendor = RepairVendor(RepairParams(kind=kind, similarity=0.6))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, once, twice = write(folder, junk), folder / "once", folder / "twice"
        try:
            if vendor.quote(source) is None:
                return
        except InputError:
            # Junk that begins as a file of another form.
            assert junk[:1] not in b"{["
            return
        report = vendor.repair(source, once)
        dataset = read_dataset(once)
        assert dataset.kind is report.kind
        assert len(dataset) == report.rows_out == report.rows_in - len(report.dropped)
        again = vendor.repair(once, twice)
        assert twice.read_bytes() == once.read_bytes()
        assert not again.actions
        assert not again.dropped


ASK = '{"role": "user", "content": "Where is it?"}'


def test_weights_are_kept_and_rows_with_tool_calls_are_left_out_by_name(tmp_path: Path) -> None:
    context = '{"role": "gpt", "content": "No idea.", "weight": 0}'
    answer = '{"role": "gpt", "content": "In the shed.", "weight": 1}'
    call = '{"role": "assistant", "content": "Let me look.", "tool_calls": [{"id": "c"}]}'
    lines = [
        f'{{"messages": [{ASK}, {context}, {ASK}, {answer}]}}',
        f'{{"messages": [{ASK}, {answer}, {ASK}, {context}]}}',
        f'{{"messages": [{ASK}, {context}]}}',
        f'{{"messages": [{ASK}, {call}]}}',
        f'{{"conversations": [{ASK}, {answer}], "Tools": [{{"type": "function"}}]}}',
        f'{{"messages": [{ASK}, {answer.replace("1", "2")}]}}',
        '{"prompt": "q", "completion": "a", "label": false}',
    ]
    target = tmp_path / "clean.jsonl"
    report = RepairVendor().repair(write(tmp_path, "\n".join(lines)), target)
    asked = {"role": "user", "content": "Where is it?"}
    not_learnt = {"role": "assistant", "content": "No idea.", "weight": 0}
    learnt = {"role": "assistant", "content": "In the shed."}
    assert read_dataset(target).rows == (
        {"messages": [asked, not_learnt, asked, learnt]},
        {"messages": [asked, learnt, asked, not_learnt]},
    )
    assert [(row.line, row.reason, row.note) for row in report.dropped] == [
        (3, DropReason.EMPTY, "no text to learn from"),
        (4, DropReason.UNSUPPORTED, "tool_calls in a row to repair"),
        (5, DropReason.UNSUPPORTED, "tools in a row to repair"),
        (6, DropReason.UNSUPPORTED, "a weight other than 0 and 1"),
        (7, DropReason.UNSUPPORTED, "label in a row to repair"),
    ]


def test_a_file_of_tool_calls_alone_is_refused_for_that(tmp_path: Path) -> None:
    call = '{"role": "assistant", "content": null, "tool_calls": [{"id": "c"}]}'
    source = write(tmp_path, "\n".join([f'{{"messages": [{ASK}, {call}]}}'] * 3))
    vendor = RepairVendor()
    assert vendor.quote(source) is None
    with pytest.raises(InputError, match=r"tool_calls in a row to repair \(3 of 3 rows\)"):
        vendor.repair(source, tmp_path / "clean.jsonl")
