"""Files tokenized step by step hold what they hold when they are tokenized at once."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import PreTrainedTokenizerBase

from auctune.domain import InputError
from auctune.domain.dataset import read_dataset
from auctune.train import tokenized_file
from auctune.train.rows import tokenize
from auctune.train.tokenized_file import FileTokenizer, read_rows
from auctune.train.tokenizer import load_tokenizer

pytest_plugins = ["support.tiny_bases"]

MAX_LENGTH = 24


@pytest.fixture(scope="module")
def tokenizer(tiny_cache: Path) -> PreTrainedTokenizerBase:
    return load_tokenizer("tiny", cache=tiny_cache)[0]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _text(n: int) -> dict[str, Any]:
    return {"text": "rain and sun " * (1 + n % 9)}


def _completion(n: int) -> dict[str, Any]:
    return {"prompt": "how is it? " * (1 + n % 9), "completion": f" rain {n}"}


def _chat(n: int) -> dict[str, Any]:
    asked = {"role": "user", "content": "how is it? " * (1 + n % 9)}
    return {"messages": [asked, {"role": "assistant", "content": f"rain {n}"}]}


@pytest.mark.parametrize("make", [_text, _completion, _chat])
def test_a_file_in_steps_is_the_file_at_once(
    make: Any, tokenizer: PreTrainedTokenizerBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "data.jsonl", [make(n) for n in range(50)])
    whole = tokenize(read_dataset(path), tokenizer, MAX_LENGTH)
    monkeypatch.setattr(tokenized_file, "_CHUNK_ROWS", 7)
    steps = read_rows(path, tokenizer, MAX_LENGTH)
    assert whole.num_truncated
    assert (steps.dropped, steps.num_truncated, steps.longest, steps.digest) == (
        whole.dropped, whole.num_truncated, whole.longest, whole.digest
    )  # fmt: skip
    for one, other in zip(steps.rows, whole.rows, strict=True):
        assert np.array_equal(one.input_ids, other.input_ids)
        assert np.array_equal(one.labels, other.labels)
    assert len(steps.rows[:4]) == 4
    assert np.array_equal(steps.rows[-1].input_ids, whole.rows[-1].input_ids)


def test_a_step_is_short_however_long_the_rows_are(
    tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    rows = [{"text": "rain " * 20_000} for _ in range(9)]
    file = FileTokenizer(write(tmp_path / "data.jsonl", rows), tokenizer, MAX_LENGTH)
    num_steps = 0
    while file.data is None:
        file.step()
        num_steps += 1
    # Three rows are more than a quarter of a million characters; the last step finds the end.
    assert num_steps == 4
    assert file.data.num_truncated == len(rows)


def test_a_file_of_which_nothing_can_be_learnt_is_refused_as_a_whole(
    tokenizer: PreTrainedTokenizerBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenized_file, "_CHUNK_ROWS", 7)
    rows = [{"prompt": "how " * 99, "completion": "so"} for _ in range(20)]
    path = write(tmp_path / "data.jsonl", rows)
    with pytest.raises(InputError, match="none of 20 has a token to learn"):
        read_rows(path, tokenizer, MAX_LENGTH)
    # One row more that can be learnt, and the others are left out.
    write(path, [*rows, {"prompt": "how", "completion": "so"}])
    assert list(read_rows(path, tokenizer, MAX_LENGTH).dropped) == list(range(20))
