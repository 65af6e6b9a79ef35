"""Text of an answer in pieces, and the bytes of its tokens."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from auctune.domain.generation import DrawnToken
from auctune.train.generation.text import AnswerText
from auctune.train.generation.token_bytes import TokenBytes
from auctune.train.tiny import tiny_folder

pytest_plugins = ["support.tiny_bases"]


@pytest.fixture(scope="module")
def tokenizer(tiny_cache: "object") -> PreTrainedTokenizerBase:
    loaded: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(str(tiny_folder(tiny_cache)))  # type: ignore[arg-type]
    return loaded


def add_all(
    tokenizer: PreTrainedTokenizerBase, text: str, stop: tuple[str, ...]
) -> tuple[str, list[DrawnToken]]:
    answer = AnswerText(tokenizer, stop)
    shown = ""
    tokens: list[DrawnToken] = []
    for token in tokenizer(text, add_special_tokens=False)["input_ids"]:
        piece, part = answer.add(token, DrawnToken(f"{token}", (), 0.0))
        shown, tokens = shown + piece, tokens + list(part)
        if answer.is_stopped:
            return shown, tokens
    piece, part = answer.finish()
    return shown + piece, tokens + list(part)


@settings(max_examples=200)
@given(
    text=st.text(alphabet="ab .", max_size=30),
    stop=st.lists(st.text(alphabet="ab .", min_size=1, max_size=4), max_size=3),
)
def test_an_answer_ends_before_the_first_stop_text(
    tokenizer: PreTrainedTokenizerBase, text: str, stop: list[str]
) -> None:
    unstopped, all_tokens = add_all(tokenizer, text, ())
    assert unstopped == text
    assert len(all_tokens) == len(tokenizer(text, add_special_tokens=False)["input_ids"])
    shown, tokens = add_all(tokenizer, text, tuple(stop))
    # Nothing is drawn after the first stop text that is complete.
    pieces = tokenizer.batch_decode([[one] for one in tokenizer(text)["input_ids"]])
    whole = ""
    for piece in pieces:
        whole += piece
        ends = [at for one in stop if (at := whole.find(one)) >= 0]
        if ends:
            assert shown == text[: min(ends)]
            assert tokens == all_tokens[: len(tokens)]
            return
    assert (shown, tokens) == (text, all_tokens)


@settings(max_examples=200)
@given(text=st.text(max_size=30))
def test_characters_come_whole(tokenizer: PreTrainedTokenizerBase, text: str) -> None:
    answer, shown = AnswerText(tokenizer, ("never there",)), ""
    for token in tokenizer(text, add_special_tokens=False)["input_ids"]:
        piece, _ = answer.add(token, None)
        shown += piece
        assert text.startswith(shown)
    assert shown + answer.finish()[0] == text


@settings(max_examples=200)
@given(text=st.text(max_size=30))
def test_bytes_of_tokens_are_those_of_the_text(
    tokenizer: PreTrainedTokenizerBase, text: str
) -> None:
    reader = TokenBytes(tokenizer)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert b"".join(map(reader.of, ids)) == text.encode(errors="replace")
