"""Requests are read in the same way whether or not the base's weights are loaded here."""

from dataclasses import replace
from pathlib import Path

import pytest

from auctune.domain.errors import InputError
from auctune.domain.generation import GenerationRequest, SamplingParams, ScoreRequest
from auctune.train.generation.reading import RequestReader
from support.small_bases import FAMILIES, build_base, write_rows


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("has_settings", [True, False])
def test_a_reader_without_the_base_reads_as_one_of_it(
    family: str, has_settings: bool, tmp_path: Path
) -> None:
    base = build_base(tmp_path / "base", family)
    settings = tmp_path / "base" / "generation_config.json"
    assert settings.exists()
    if has_settings:
        settings.write_text('{"eos_token_id": [0, 5]}')
    else:
        settings.unlink()
    base.model.generation_config.eos_token_id = [0, 5] if has_settings else 0
    mine, other = RequestReader.of(base), RequestReader.without_base(base.name, cache=tmp_path)
    assert replace(other, tokenizer=mine.tokenizer) == mine
    assert mine.ends == ({0, 5} if has_settings else {0})
    data = write_rows(tmp_path / "rows.jsonl", 3, 1)
    for request in (
        GenerationRequest(prompt="word1 word2", params=SamplingParams(max_tokens=5)),
        GenerationRequest(messages=({"role": "user", "content": "word3"},)),
        ScoreRequest(data=data, max_rows=3),
    ):
        assert mine.measure(request) == other.measure(request)


def test_prompts_that_cannot_be_short_enough_are_refused_before_they_are_tokenized(
    tmp_path: Path,
) -> None:
    base = build_base(tmp_path / "base", "llama")
    reader = replace(RequestReader.of(base), tokenizer=None)
    text = "\u20ac" * (64 * 64 // 3 + 1)
    for place, request in (
        ("prompt", GenerationRequest(prompt=text)),
        ("messages", GenerationRequest(messages=({"role": "user", "content": text},))),
        ("messages", GenerationRequest(messages=({"role": "user"},), tools=({"a": [text]},))),
    ):
        with pytest.raises(InputError, match=f"{place}: has 4[0-9]+ bytes; expected 4096 at most"):
            reader.read(request)


def test_rows_may_be_shorter_than_the_context(tmp_path: Path) -> None:
    reader = replace(RequestReader.of(build_base(tmp_path / "base", "llama")), row_tokens=10)
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "' + "word1 " * 30 + '"}\n')
    assert reader.measure(ScoreRequest(data=rows, max_rows=1)).prompt_tokens == 10
    prompt = GenerationRequest(prompt="word1 " * 30)
    assert reader.measure(prompt).prompt_tokens == 30
    with pytest.raises(InputError, match="has 64 tokens"):
        reader.measure(GenerationRequest(prompt="word1 " * 64))
