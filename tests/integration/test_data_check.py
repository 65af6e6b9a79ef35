"""`auctune data check`, on files as people have them, with the tiny base's real tokenizer."""

import gzip
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tokenizers import Tokenizer
from tokenizers.decoders import Metaspace as MetaspaceDecoder
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Metaspace
from transformers import PreTrainedTokenizerFast
from typer.testing import CliRunner

from auctune.cli import data as command
from auctune.cli.app import app
from auctune.datasets import read_dataset
from auctune.train.base import Base
from auctune.train.data_check import check_rows
from auctune.train.rows import IGNORE_INDEX, tokenize

pytest_plugins = ["support.tiny_bases"]

ASK, ANSWER = {"role": "user", "content": "Where?"}, {"role": "assistant", "content": "Żółw 🐢."}
CONTEXT = {"role": "assistant", "content": "Here.", "weight": 0}


@pytest.fixture(autouse=True)
def _cache(tiny_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "base_cache", lambda: tiny_cache)


def check(path: Path, *options: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["data", "check", str(path), *options])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def write(path: Path, rows: Sequence[object]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_targets_stand_between_brackets(tmp_path: Path) -> None:
    path = write(tmp_path / "rows", [{"messages": [ASK, CONTEXT, ASK, ANSWER]}])
    code, told = check(path)
    assert code == 0
    *shown, last = told.splitlines()
    assert shown[0].startswith("line 1: chat; ")
    assert "\n".join(shown[1:]) == (
        "<|turn|>user⏎\nWhere?⏎\n<|turn|>assistant⏎\nHere.<|end|><|turn|>user⏎\nWhere?⏎\n"
        "<|turn|>assistant⏎\n[Żółw 🐢.<|end|>]"
    )
    assert last.startswith("JSON lines; 1 row: 1 trains as chat (")


def test_tokens_are_those_that_are_trained_on(tmp_path: Path, tiny_base: Base) -> None:
    longer = {"role": "assistant", "content": "Żółw, " * 9}
    rows = [{"messages": [ASK, ANSWER]}, {"messages": [ASK, longer]}]
    path = write(tmp_path / "rows", rows)
    code, told = check(path, "--json", "--max-length", "24")
    assert code == 1, "more than a tenth of the rows are truncated"
    trained = tokenize(read_dataset(path), tiny_base.tokenizer, 24).rows
    *lines, summary = told.splitlines()
    assert summary.endswith("too many are longer than 24 tokens, without --set truncate=true")
    for line, row in zip(lines, trained, strict=True):
        (text,) = json.loads(line)["texts"]
        targets = [token["is_target"] for token in text["tokens"]]
        assert targets == (row.labels != IGNORE_INDEX).tolist()
        shown = "".join(token["text"] for token in text["tokens"])
        assert shown == tiny_base.tokenizer.decode(row.input_ids)


def test_all_rows_that_would_be_refused_are_named(tmp_path: Path) -> None:
    rows: list[Any] = [
        {"messages": [ASK, ANSWER]},
        {"messages": [ASK, ANSWER], "mood": "sad"},
        {"messages": [ASK, ANSWER | {"reasoning_content": "Hm."}]},
        {"prompt": "a", "completion": "b"},
        {"messages": [ASK, ANSWER | {"weight": 0}]},
        {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]},
    ]
    code, told = check(write(tmp_path / "rows", rows), "--rows", "0")
    assert code == 1
    *refused, last = told.splitlines()
    assert [line.partition(";")[0] for line in refused] == [
        "line 2: refused: the key 'mood' is not supported",
        "line 3: refused: messages[1].reasoning_content: has no place in the base's chat template",
        "line 4: refused: is a row of kind completion, while line 1 is of kind chat",
    ]
    assert "2 train as chat" in last
    assert "1 left out with weight 0 on all messages of the assistant, 3 refused" in last


def test_rows_behind_one_that_cannot_be_read_are_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("text\na\nb,c\nd\n")
    code, told = check(path, "--rows", "0")
    assert code == 1
    assert told.splitlines()[0] == f"{path}: line 3: has 2 cells; expected 1, as line 1"
    assert told.splitlines()[1].endswith("; what is behind them cannot be read")


def test_rows_left_out_for_their_length_count_as_too_long(tmp_path: Path) -> None:
    long = {"role": "user", "content": "Where? " * 99}
    path = write(tmp_path / "rows", [{"messages": [ASK, ANSWER]}, {"messages": [long, ANSWER]}])
    code, told = check(path, "--rows", "0", "--max-length", "100")
    assert code == 1
    assert "1 left out with a prompt that fills max_length, too many are longer than" in told


def test_blanks_before_words_are_shown_whatever_a_decoder_strips(
    tmp_path: Path,
) -> None:
    backend = Tokenizer(WordLevel({"▁the": 0, "▁cat": 1, "▁sat": 2, "</s>": 3}, unk_token="</s>"))
    backend.pre_tokenizer = Metaspace()
    backend.decoder = MetaspaceDecoder()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>")
    path = write(tmp_path / "rows", [{"text": "the cat sat"}])
    (row,) = check_rows(path, tokenizer, 99, 999)
    assert "".join(token.text for token in row.texts[0].tokens) == "the cat sat</s>"


def test_both_answers_of_a_preference_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv.gz"
    path.write_bytes(gzip.compress(b"prompt,chosen,rejected\nWhere?,Here.,Away.\n"))
    code, told = check(path)
    assert code == 0
    assert "line 2: preference, read from TRL; the better answer, " in told
    assert "[Here.<|end|>]" in told
    assert "line 2: preference, read from TRL; the worse answer, " in told
    assert "[Away.<|end|>]" in told
    assert told.splitlines()[-1].startswith(
        "CSV, compressed by gzip; 1 row: 1 trains as preference"
    )
    assert told.splitlines()[-1].endswith("with --set method=dpo")


def test_each_token_has_its_colour(tmp_path: Path, tiny_base: Base) -> None:
    path = write(tmp_path / "rows", [{"messages": [ASK, ANSWER]}])
    (row,) = check_rows(path, tiny_base.tokenizer, 99, 999)
    shown = io.StringIO()
    command._print_row(row, Console(file=shown, force_terminal=True, color_system="256"))
    # Two shades of each, as each token's differs from that of the one before.
    for code in ("48;5;40m", "48;5;157m", "48;5;236m", "48;5;239m"):
        assert code in shown.getvalue()


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "has no rows"),
        (b'{"text": "\xf6"}', "line 1: has bytes that are not UTF-8"),
        (b"PK\x03\x04", "is compressed (zip)"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_error(
    tmp_path: Path, content: bytes, found: str
) -> None:
    path = tmp_path / "rows"
    path.write_bytes(content)
    done = CliRunner().invoke(app, ["data", "check", str(path)])
    assert found in str(done.exception)


def test_control_codes_are_not_printed(tmp_path: Path) -> None:
    path = write(tmp_path / "rows", [{"text": "a\x1b[31mb\u202ec"}])
    _, told = check(path)
    assert "\x1b" not in told
    assert "\u202e" not in told
