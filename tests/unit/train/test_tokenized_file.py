"""Files tokenized step by step hold what they hold when they are tokenized at once, or stored."""

import copy
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase

from auctune.datasets import read_dataset
from auctune.domain import InputError
from auctune.engine.data.examiner import Examiner
from auctune.train import stored_tokens, tokenized_file
from auctune.train.rows import TokenizedDataSet, tokenize
from auctune.train.stored_tokens import MAX_KEPT, is_stored, tokens_folder
from auctune.train.tokenized_file import FileTokenizer, read_rows
from auctune.train.tokenizer import load_tokenizer
from support.thorough import drawn

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


def test_an_error_in_a_file_names_the_file_and_its_line_but_no_folder(
    tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    path = write(tmp_path / "data.jsonl", [_text(1), {"txt": "rain"}])
    with pytest.raises(InputError) as caught:
        read_rows(path, tokenizer, MAX_LENGTH)
    assert caught.value.place.startswith("data.jsonl: line 2")
    assert str(tmp_path) not in str(caught.value)


def _rows() -> st.SearchStrategy[list[dict[str, Any]]]:
    words = st.text("rain so é\n<|>", max_size=60)
    said = st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": words},
        optional={"weight": st.sampled_from([0, 1])},
    )
    chat = st.tuples(st.fixed_dictionaries({"role": st.just("user"), "content": words}), said)
    kinds = (
        st.fixed_dictionaries({"text": words.filter(str.strip)}),
        st.fixed_dictionaries({"prompt": words, "completion": words.filter(str.strip)}),
        st.fixed_dictionaries({"messages": chat.map(list)}),
    )
    return st.one_of(*(st.lists(kind, min_size=1, max_size=12) for kind in kinds))


def told(data: TokenizedDataSet) -> tuple[Any, ...]:
    """All that is known of a data set, its rows' tokens and labels included."""
    return data.digest, len(data), dict(data.dropped), data.num_truncated, data.longest


def store(path: Path, tokenizer: PreTrainedTokenizerBase, max_length: int = MAX_LENGTH) -> None:
    Examiner(tokenizer, None).facts(path, "file", max_length, store=True)


def stored_files(path: Path) -> list[Path]:
    folder = tokens_folder(path)
    return sorted(folder.iterdir()) if folder.is_dir() else []


@pytest.mark.slow
@settings(max_examples=60)
@given(rows=_rows(), max_length=st.integers(2, 40), block_tokens=st.integers(1, 60))
def test_stored_tokens_are_those_that_a_node_makes_labels_included(
    rows: list[dict[str, Any]],
    max_length: int,
    block_tokens: int,
    tokenizer: PreTrainedTokenizerBase,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = write(tmp_path_factory.mktemp("data") / "data.jsonl", rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenized_file, "_CHUNK_ROWS", 3)
        patch.setattr(stored_tokens, "_BLOCK_TOKENS", block_tokens)
        try:
            made = read_rows(path, tokenizer, max_length)
        except InputError:
            with pytest.raises(InputError):
                store(path, tokenizer, max_length)
            assert not stored_files(path)
            return
        store(path, tokenizer, max_length)
        # From now on nothing can be tokenized.
        patch.setattr(tokenized_file, "tokenize_chunk", None)
        stored = read_rows(path, tokenizer, max_length)
    assert told(stored) == told(made)
    for one, other in zip(stored.rows, made.rows, strict=True):
        assert one.labels.dtype == other.labels.dtype
        assert np.array_equal(one.labels, other.labels)


@pytest.mark.slow
@settings(drawn(150))
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 8))
def test_damaged_tokens_are_never_trained_on(
    place: float, bit: int, tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    path = tmp_path / "data.jsonl"
    if not path.exists():
        write(path, [_chat(n) for n in range(30)])
    store(path, tokenizer)
    made = told(tokenize(read_dataset(path), tokenizer, MAX_LENGTH))
    (file,) = stored_files(path)
    content = bytearray(file.read_bytes())
    at = int(place * len(content))
    if bit < 8:
        content[at] ^= 1 << bit
    else:
        del content[at:]
    file.write_bytes(content)
    assert told(read_rows(path, tokenizer, MAX_LENGTH)) == made
    is_whole = is_stored(path, tokenizer, MAX_LENGTH)
    assert bit < 8 or not is_whole
    # The data process makes them again, unless the damage is in a byte that does not matter.
    Examiner(tokenizer, None).store(path, "file", MAX_LENGTH)
    assert is_stored(path, tokenizer, MAX_LENGTH)


def test_a_node_that_finds_torn_tokens_says_so_and_tokenizes(
    tokenizer: PreTrainedTokenizerBase, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "data.jsonl", [_text(n) for n in range(30)])
    store(path, tokenizer)
    (file,) = stored_files(path)
    os.truncate(file, file.stat().st_size // 2)
    read_rows(path, tokenizer, MAX_LENGTH)
    assert "data.jsonl: stored tokens are not used" in caplog.text
    assert "is damaged" in caplog.text


def test_tokens_of_another_content_length_or_template_are_not_used(
    tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    path = write(tmp_path / "data.jsonl", [_chat(n) for n in range(9)])
    store(path, tokenizer)
    assert is_stored(path, tokenizer, MAX_LENGTH)
    assert not is_stored(path, tokenizer, MAX_LENGTH + 1)
    other = copy.deepcopy(tokenizer)
    assert is_stored(path, other, MAX_LENGTH)
    other.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    assert not is_stored(path, other, MAX_LENGTH)
    more = copy.deepcopy(tokenizer)
    more.add_tokens(["rain"])
    assert not is_stored(path, more, MAX_LENGTH)
    write(path, [_chat(n) for n in range(8)])
    assert not is_stored(path, tokenizer, MAX_LENGTH)


def test_the_tokens_of_two_lengths_are_kept_privately_and_what_a_killed_writer_left_goes(
    tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    path = write(tmp_path / "data.jsonl", [_text(n) for n in range(9)])
    for max_length in (8, 16, 24):
        store(path, tokenizer, max_length)
        (tokens_folder(path) / ".torn.npz").touch()
    store(path, tokenizer, 24)
    assert [is_stored(path, tokenizer, length) for length in (8, 16, 24)] == [False, True, True]
    assert len(stored_files(path)) == MAX_KEPT
    assert {one.stat().st_mode & 0o777 for one in stored_files(path)} == {0o600}
    assert tokens_folder(path).stat().st_mode & 0o777 == 0o700


def test_tokens_that_there_is_no_room_for_are_not_stored_and_the_file_is_sized(
    tokenizer: PreTrainedTokenizerBase, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "data.jsonl", [_text(n) for n in range(9)])
    examiner = Examiner(tokenizer, None, reserve_bytes=2**62)
    assert examiner.facts(path, "file", MAX_LENGTH, store=True).rows == 9
    assert not stored_files(path)
    assert "tokens of data.jsonl.tokens are not stored" in caplog.text
