"""Answers generated together, against those of plain PEFT, one at a time."""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import MambaConfig, MambaForCausalLM

from auctune.domain.errors import AuctuneError, InputError
from auctune.domain.generation import (
    AnswerEnd,
    AnswerPiece,
    DrawnToken,
    GenerationRequest,
    PromptRead,
    SamplingParams,
)
from auctune.train.adapter_files import write_record
from auctune.train.base import Base, load_base
from auctune.train.generation.engine import Engine, Reply
from auctune.train.generation.token_bytes import TokenBytes
from support.peft_adapters import save_adapter
from support.plain_model import greedy_text, plain_model
from support.small_bases import FAMILIES, WORDS, build_base, build_tokenizer

# The bases read 64 tokens.
CONTEXT = 64


class Answers:
    """What an engine has replied, by request and number of the answer."""

    def __init__(self) -> None:
        self.text: dict[tuple[str, int], str] = defaultdict(str)
        self.tokens: dict[tuple[str, int], list[DrawnToken]] = defaultdict(list)
        self.ends: dict[tuple[str, int], AnswerEnd] = {}
        self.prompts: dict[str, int] = {}
        self.errors: dict[str, AuctuneError] = {}

    def take(self, replies: list[Reply]) -> None:
        for id_, piece in replies:
            if isinstance(piece, AnswerPiece):
                assert piece.text or piece.tokens
                self.text[id_, piece.answer] += piece.text
                self.tokens[id_, piece.answer] += piece.tokens
            elif isinstance(piece, AnswerEnd):
                assert (id_, piece.answer) not in self.ends
                self.ends[id_, piece.answer] = piece
            elif isinstance(piece, PromptRead):
                self.prompts[id_] = piece.prompt_tokens
            elif isinstance(piece, AuctuneError):
                self.errors[id_] = piece

    def finish(self, engine: Engine) -> "Answers":
        while not engine.is_idle:
            self.take(engine.step())
        return self


def request(prompt: list[int], adapter: Path | None = None, **params: Any) -> GenerationRequest:
    params = {"temperature": 0.0} | params
    return GenerationRequest(adapter=adapter, prompt=tuple(prompt), params=SamplingParams(**params))


def count_paused(engine: Engine) -> Counter[str]:
    """Counts how often answers of a user are paused from now on."""
    paused, pause = Counter[str](), engine._pause

    def counted(answer: Any) -> None:
        paused[answer.user] += 1
        pause(answer)

    engine._pause = counted  # type: ignore[method-assign]
    return paused


def expected(base: Base, prompt: list[int], adapter: Path | None, max_tokens: int) -> str:
    """The greedy answer of plain PEFT."""
    return greedy_text(base, plain_model(base, adapter), prompt, max_tokens)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("max_cache_bytes", [2**30, 20_000])
def test_answers_of_many_adapters_are_those_of_plain_peft(
    family: str, max_cache_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auctune.train.generation.engine._SPARE_TOKENS", 2)
    base = build_base(tmp_path / "base", family)
    adapters = [
        None,
        save_adapter(tmp_path / "a", family, base.fresh_model()),
        save_adapter(tmp_path / "b", family, base.fresh_model(), r=7, use_rslora=True),
    ]
    engine = Engine(base, max_batch=5, max_cache_bytes=max_cache_bytes)
    engine._chunk = 7
    paused = count_paused(engine)
    random = np.random.default_rng(1)
    asked, answers = {}, Answers()
    for number in range(14):
        prompt = random.integers(1, CONTEXT - 2, int(random.integers(1, 40))).tolist()
        adapter, count = adapters[number % 3], int(random.integers(1, 40))
        asked[f"{number}"] = (prompt, adapter, count)
        engine.add(f"{number}", request(prompt, adapter, max_tokens=count))
        for _ in range(int(random.integers(0, 9))):
            answers.take(engine.step())
    answers.finish(engine)
    assert bool(paused) == (max_cache_bytes < 2**30)
    for id_, (prompt, adapter, count) in asked.items():
        assert answers.text[id_, 0] == expected(base, prompt, adapter, count), id_
        assert answers.prompts[id_] == len(prompt)
        end = answers.ends[id_, 0]
        room = min(count, CONTEXT - len(prompt))
        assert end.num_tokens == room if end.reason == "length" else end.num_tokens <= room


def test_a_cancelled_request_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    base = build_base(tmp_path / "base", "llama")
    engine, answers = Engine(base), Answers()
    prompts = {"a": [3] * 3, "b": [3] * 2, "c": [3] * 20, "d": [3, 3]}
    for id_, prompt in prompts.items():
        engine.add(id_, request(prompt, max_tokens=30))
    for _ in range(6):
        answers.take(engine.step())
    # All are under way, so others change places.
    assert not answers.ends
    engine.cancel("a")
    engine.cancel("c")
    engine.cancel("never there")
    answers.finish(engine)
    assert set(answers.ends) <= {("a", 0), ("c", 0), ("b", 0), ("d", 0)}
    for id_ in ("b", "d"):
        assert answers.text[id_, 0] == expected(base, prompts[id_], None, 30)


def test_reported_probabilities_are_those_of_the_model(tmp_path: Path) -> None:
    base = build_base(tmp_path / "base", "gpt2")
    engine = Engine(base)
    engine.add("x", request([5, 6, 7], max_tokens=4, num_logprobs=3, temperature=1.0, seed=4))
    found = Answers().finish(engine).tokens["x", 0]
    names = ["<end>", "<unknown>", *WORDS]
    ids = [5, 6, 7]
    for drawn in found:
        with torch.no_grad():
            logits = base.fresh_model()(input_ids=torch.tensor([ids])).logits[0, -1]
        logprobs = torch.log_softmax(logits, dim=-1)
        ids.append(names.index(drawn.token))
        assert drawn.logprob == pytest.approx(float(logprobs[ids[-1]]), abs=1e-4)
        best = logprobs.topk(3)
        assert [one.token for one in drawn.top] == [names[i] for i in best.indices.tolist()]
        assert [one.logprob for one in drawn.top] == pytest.approx(best.values.tolist(), abs=1e-4)
        assert bytes(drawn.bytes).decode() == drawn.token


def test_draws_have_the_probabilities_of_temperature_and_top_p(tmp_path: Path) -> None:
    base = build_base(tmp_path / "base", "llama")
    engine, count = Engine(base, max_batch=64), 64
    with torch.no_grad():
        logits = base.fresh_model()(input_ids=torch.tensor([[5, 6]])).logits[0, -1]
    probs = torch.softmax(logits / 1.5, dim=-1)
    order = probs.argsort(descending=True).tolist()
    top_p = float(probs[order[:2]].sum()) + 1e-3
    kept = probs[order[:3]] / probs[order[:3]].sum()
    seen: dict[str, int] = defaultdict(int)
    for seed in range(10):
        params: dict[str, Any] = {"temperature": 1.5, "top_p": top_p, "seed": 1000 * seed}
        params["num_answers"] = count
        engine.add("x", request([5, 6], max_tokens=1, num_logprobs=0, **params))
        for tokens in Answers().finish(engine).tokens.values():
            seen[tokens[0].token] += 1
    names = ["<end>", "<unknown>", *WORDS]
    assert set(seen) <= {names[token] for token in order[:3]}
    for token, chance in zip(order[:3], kept.tolist(), strict=True):
        deviation = (chance * (1 - chance) / (10 * count)) ** 0.5
        # An answer that ends at once has no tokens.
        if names[token] != "<end>":
            assert abs(seen[names[token]] / (10 * count) - chance) < 4.5 * deviation


def test_of_no_probability_the_likeliest_token_is_left(tmp_path: Path) -> None:
    base = build_base(tmp_path / "base", "llama")
    engine, answers = Engine(base), Answers()
    engine.add("x", request([5, 6], max_tokens=9, temperature=1.0, top_p=0.0))
    assert answers.finish(engine).text["x", 0] == expected(base, [5, 6], None, 9)


def test_the_same_seed_draws_the_same_answers_in_any_company(tmp_path: Path) -> None:
    base = build_base(tmp_path / "base", "llama")
    engine = Engine(base)
    one = request([5, 6], max_tokens=12, temperature=1.0, seed=7, num_answers=3)
    engine.add("alone", one)
    alone = Answers().finish(engine).text
    engine.add("other", request([9] * 30, max_tokens=20, temperature=1.0, seed=1))
    engine.add("again", one)
    again = Answers().finish(engine).text
    assert [alone["alone", n] for n in range(3)] == [again["again", n] for n in range(3)]
    assert len({alone["alone", n] for n in range(3)}) > 1


def test_what_cannot_be_answered_is_refused_and_the_rest_goes_on(tmp_path: Path) -> None:
    base = build_base(tmp_path / "base", "llama")
    engine, answers = Engine(base), Answers()
    with pytest.raises(InputError, match="has 64 tokens; expected fewer than the 64"):
        engine.add("long", request([1] * CONTEXT))
    with pytest.raises(InputError, match="has token 64; expected tokens from 0 to 63"):
        engine.add("wrong", request([64]))
    with pytest.raises(InputError, match="is empty"):
        engine.add("empty", request([]))
    engine.add("gone", request([1], tmp_path / "nothing"))
    engine.add("other", request([1], save_adapter(tmp_path / "other", "gpt2")))
    engine.add("good", request([1, 2], max_tokens=3))
    answers.finish(engine)
    assert "cannot be read" in str(answers.errors["gone"])
    assert "other" in answers.errors
    assert answers.text["good", 0] == expected(base, [1, 2], None, 3)


def test_unused_adapters_make_room_for_others(tmp_path: Path) -> None:
    base = build_base(tmp_path / "base", "llama")
    paths = [save_adapter(tmp_path / f"{rank}", r=rank) for rank in (3, 4, 5)]
    engine = Engine(base, max_adapter_bytes=1)
    for number, path in enumerate((*paths, *paths)):
        engine.add(f"{number}", request([4, 5], path, max_tokens=5))
        text = Answers().finish(engine).text[f"{number}", 0]
        assert text == expected(base, [4, 5], path, 5)
        assert len(engine._pool.model.adapters) == 1


def test_an_adapter_of_the_same_settings_takes_the_place_of_another(tmp_path: Path) -> None:
    base = build_base(tmp_path / "base", "llama")
    paths = [save_adapter(tmp_path / f"{factor}", r=3) for factor in (1, 3, 9)]
    for path in paths:
        file = path / "adapter_model.safetensors"
        save_file({key: int(path.name) * one for key, one in load_file(file).items()}, file)
    engine = Engine(base)
    engine._pool._max_adapters = 2
    texts = []
    for number, path in enumerate((*paths, *paths)):
        engine.add(f"{number}", request([4, 5], path, max_tokens=9))
        texts.append(Answers().finish(engine).text[f"{number}", 0])
        assert texts[-1] == expected(base, [4, 5], path, 9)
    assert len(set(texts)) == 3
    assert set(engine._pool.model.adapters) == {"adapter-0", "adapter-1"}


def test_an_adapter_of_another_number_type_is_refused_unless_told_otherwise(tmp_path: Path) -> None:
    base = build_base(tmp_path / "base", "llama")
    adapter = save_adapter(tmp_path / "adapter")
    write_record("0" * 64, adapter)
    refusing, accepting = Engine(base), Engine(base, checks_base=False)
    refusing.add("x", request([4, 5], adapter, max_tokens=5))
    assert "was trained on another base" in str(Answers().finish(refusing).errors["x"])
    base = load_base(str(tmp_path / "base"), cache=tmp_path)
    accepting.add("x", request([4, 5], adapter, max_tokens=5))
    text = Answers().finish(accepting).text["x", 0]
    assert text == expected(base, [4, 5], adapter, 5)


def test_answers_join_as_far_as_places_and_memory_reach(tmp_path: Path) -> None:
    base = build_base(tmp_path / "base", "llama")
    one = request([7] * 30, max_tokens=6, temperature=1.0, seed=3, num_answers=9)
    engine = Engine(base, max_batch=16)
    engine.add("all", one)
    together = Answers().finish(engine).text
    for max_batch, max_cache_bytes in ((2, 2**30), (16, 3 * 256 * (30 + 64))):
        engine = Engine(base, max_batch=max_batch, max_cache_bytes=max_cache_bytes)
        engine.add("all", one)
        answers = Answers()
        while not engine.is_idle:
            answers.take(engine.step())
            num_rows = len(engine._rows)
            assert num_rows <= max_batch
            assert engine._kv.num_bytes(num_rows, engine._kv.width) <= max_cache_bytes
        assert answers.text == together
        assert len(answers.ends) == 9


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_numbers_that_overflow_end_their_request_alone(tmp_path: Path, temperature: float) -> None:
    base = build_base(tmp_path / "base", "llama")
    adapter = save_adapter(tmp_path / "adapter")
    weights = load_file(adapter / "adapter_model.safetensors")
    huge = {name: 1e30 * one for name, one in weights.items()}
    save_file(huge, adapter / "adapter_model.safetensors")
    engine = Engine(base)
    engine.add("good", request([1, 2], max_tokens=8))
    params = {"temperature": temperature, "max_tokens": 8, "num_answers": 3}
    engine.add("huge", request([1, 2], adapter, **params))
    answers = Answers().finish(engine)
    assert str(answers.errors["huge"]).startswith("model: computes numbers that are not finite")
    assert answers.text["good", 0] == expected(base, [1, 2], None, 8)


def test_a_base_with_a_state_of_its_own_is_refused(tmp_path: Path) -> None:
    config = MambaConfig(vocab_size=64, hidden_size=32, num_hidden_layers=1)
    MambaForCausalLM(config).save_pretrained(tmp_path)
    build_tokenizer().save_pretrained(str(tmp_path))
    with pytest.raises(InputError, match="keeps a state beside the keys and values"):
        Engine(load_base(str(tmp_path), cache=tmp_path))


def test_a_token_that_the_tokenizer_lacks_has_no_text(tmp_path: Path) -> None:
    base = build_base(tmp_path / "base", "llama")
    assert TokenBytes(base.tokenizer).of(63) == b""
