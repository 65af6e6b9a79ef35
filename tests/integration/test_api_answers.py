"""Answers of a base and of fine-tuned models on it, as OpenAI's client asks for them."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import openai
import pytest

from auctune.domain.dataset import RowKind
from auctune.domain.epoch_metrics import EpochMetrics
from auctune.service.accounts.registry import Budget
from auctune.service.config.inference import InferenceConfig
from auctune.service.config.models import ServiceConfig
from auctune.service.storage.event_log import EventType
from auctune.train.adapter_files import pack_adapter
from auctune.train.base import Base, load_base
from support.openai_contract import violations
from support.peft_adapters import save_adapter
from support.plain_model import plain_text
from support.serving import Served, make_file, make_zone, serving
from support.waits import poll

pytest_plugins = ["support.tiny_bases"]

QUESTION = "What is the weather like in Lisbon?"
MESSAGES = [{"role": "user", "content": QUESTION}]
LIMITS = InferenceConfig(max_batch=4, threads=1)


@dataclass(frozen=True)
class Tuned:
    """A fine-tuned model, and the folder of its adapter."""

    name: str
    job: str
    adapter: Path


@pytest.fixture(scope="module")
def base(tiny_cache: Path) -> Base:
    return load_base("tiny", cache=tiny_cache)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, tiny_cache: Path) -> Iterator[Served]:
    file = make_file([make_zone()]).model_copy(
        update={"inference": LIMITS, "model_aliases": {"gpt-4o-mini": "tiny"}}
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("auctune.service.inference.generation.MAX_WAITING", 2)
        with serving(tmp_path_factory.mktemp("market"), file, bases=tiny_cache) as opened:
            yield opened


def train(served: Served, folder: Path, base: Base, user: str = "ada") -> Tuned:
    """A job that ends with an adapter of random weights, and one checkpoint."""
    key = served.users.get(user) or served.key(user)
    client = served.client(key)
    job = served.bid(client, served.upload(key))
    # So large that its answers are others than the base's, whatever the processor rounds.
    adapter = save_adapter(folder / "adapter", "gpt2", base.fresh_model(), lora_alpha=100)
    pack_adapter(adapter, folder / "adapter.zip")
    served.train(job.id, 150)
    epochs = [EpochMetrics(1, 7, 1.0, 0.5, 2.0, 0.25)]
    served.finish(job.id, user, content=(folder / "adapter.zip").read_bytes(), epochs=epochs)
    name = client.fine_tuning.jobs.retrieve(job.id).fine_tuned_model
    assert name is not None
    return Tuned(name, job.id, adapter)


@pytest.fixture(scope="module")
def tuned(served: Served, base: Base, tmp_path_factory: pytest.TempPathFactory) -> Tuned:
    return train(served, tmp_path_factory.mktemp("tuned"), base)


def expected(base: Base, adapter: Path | None, kind: RowKind, prompt: str, count: int) -> str:
    return plain_text(base, adapter, kind, prompt, count)


def test_a_base_answers_a_chat(served: Served, base: Base) -> None:
    answer = served.client().chat.completions.create(
        model="tiny", messages=MESSAGES, temperature=0, max_completion_tokens=20
    )
    (choice,) = answer.choices
    text = expected(base, None, RowKind.CHAT, QUESTION, 20)
    assert (choice.message.role, choice.message.content) == ("assistant", text)
    assert choice.finish_reason in ("stop", "length")
    assert answer.object == "chat.completion"
    assert answer.model == "tiny"
    assert answer.created == int(served.clock())
    assert answer.system_fingerprint is not None
    usage = answer.usage
    assert usage is not None
    assert 0 < usage.completion_tokens <= 20
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


def test_fine_tuned_models_and_their_checkpoints_answer(
    served: Served, base: Base, tuned: Tuned
) -> None:
    client = served.client()
    text = expected(base, tuned.adapter, RowKind.CHAT, QUESTION, 12)
    assert text != expected(base, None, RowKind.CHAT, QUESTION, 12)
    for name in (tuned.name, f"{tuned.name}:ckpt-step-7"):
        answer = client.chat.completions.create(
            model=name, messages=MESSAGES, temperature=0, max_tokens=12
        )
        assert (answer.model, answer.choices[0].message.content) == (name, text)


def test_a_stream_has_the_same_text_and_its_usage(served: Served) -> None:
    asked: Any = {
        "model": "tiny",
        "messages": MESSAGES,
        "max_tokens": 15,
        "seed": 3,
        "n": 2,
        "temperature": 1.5,
    }
    client = served.client()
    whole = client.chat.completions.create(**asked)
    chunks = list(
        client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    )
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[-1].choices == []
    assert chunks[-1].usage == whole.usage
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert [chunk.choices[0].delta.role for chunk in chunks[:2]] == ["assistant", "assistant"]
    for index in (0, 1):
        own = [one for chunk in chunks for one in chunk.choices if one.index == index]
        text = "".join(one.delta.content or "" for one in own)
        assert text == whole.choices[index].message.content
        reasons = [one.finish_reason for one in own]
        assert reasons == [None] * (len(own) - 1) + [whole.choices[index].finish_reason]


def test_the_asynchronous_client_streams(served: Served, base: Base) -> None:
    async def ask() -> str:
        async with openai.AsyncOpenAI(
            base_url=f"{served.url}/v1",
            api_key=served.users["ada"],
            max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(verify=False),
        ) as client:
            stream = await client.chat.completions.create(
                model="tiny", messages=MESSAGES, temperature=0, max_tokens=9, stream=True
            )
            return "".join(
                [one.delta.content or "" async for chunk in stream for one in chunk.choices]
            )

    assert asyncio.run(ask()) == expected(base, None, RowKind.CHAT, QUESTION, 9)


def test_a_stream_is_server_sent_events_that_end_with_done(served: Served) -> None:
    body = {"model": "tiny", "messages": MESSAGES, "max_tokens": 3, "stream": True}
    with served.http() as http:
        answer = http.post("/v1/chat/completions", json=body)
    assert answer.headers["content-type"].startswith("text/event-stream")
    *events, done, end = answer.text.split("\n\n")
    assert (done, end) == ("data: [DONE]", "")
    chunks = [json.loads(event.removeprefix("data: ")) for event in events]
    for chunk in chunks:
        assert violations("/v1/chat/completions", "POST", 200, chunk, is_chunk=True) == []
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert "usage" not in chunks[0]
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert chunks[-1]["choices"][0]["finish_reason"] is not None


def test_prompts_are_continued_as_texts_and_as_tokens(served: Served, base: Base) -> None:
    client = served.client()
    prompts = ["The weather in Lisbon", "Once upon"]
    texts = [expected(base, None, RowKind.COMPLETION, prompt, 8) for prompt in prompts]
    answer = client.completions.create(model="tiny", prompt=prompts, temperature=0, max_tokens=8)
    assert answer.object == "text_completion"
    assert [one.text for one in answer.choices] == texts
    assert [one.index for one in answer.choices] == [0, 1]
    tokens = [base.tokenizer(prompt)["input_ids"] for prompt in prompts]
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == sum(map(len, tokens))
    for prompt in (tokens[0], [tokens[0]], prompts[0]):
        again = client.completions.create(model="tiny", prompt=prompt, temperature=0, max_tokens=8)
        assert again.choices[0].text == texts[0]
    # OpenAI's own chunks have a null where its schema has a finish_reason.
    stream = served.client(strict=False).completions.create(
        logprobs=1, model="tiny", prompt=prompts, temperature=0, max_tokens=8, stream=True
    )
    shown = ["", ""]
    for chunk in stream:
        body = chunk.to_dict()
        assert violations("/v1/completions", "POST", 200, body, is_chunk=True) == []
        for one in chunk.choices:
            shown[one.index] += one.text
    assert shown == texts


def test_logprobs_of_both_formats_agree(served: Served, base: Base) -> None:
    client = served.client()
    asked: Any = {"model": "tiny", "temperature": 0, "max_tokens": 6, "stop": ["zzz"]}
    text = client.completions.create(prompt="The weather", logprobs=2, **asked).choices[0]
    assert text.logprobs is not None
    offsets, tokens = text.logprobs.text_offset, text.logprobs.tokens
    assert offsets is not None
    assert tokens is not None
    assert "".join(tokens) == text.text
    assert [text.text[at:].startswith(one) for at, one in zip(offsets, tokens, strict=True)]
    for own, top in zip(
        text.logprobs.token_logprobs or [], text.logprobs.top_logprobs or [], strict=True
    ):
        assert own == max(top.values())
    chat = client.chat.completions.create(
        messages=MESSAGES, logprobs=True, top_logprobs=3, **asked
    ).choices[0]
    assert chat.logprobs is not None
    content = chat.logprobs.content
    assert content is not None
    assert b"".join(bytes(one.bytes or ()) for one in content).decode() == chat.message.content
    for one in content:
        assert one.top_logprobs[0].logprob == one.logprob <= 0
        assert len(one.top_logprobs) == 3


def test_a_stop_text_ends_an_answer_and_is_not_part_of_it(served: Served) -> None:
    client = served.client()
    asked: Any = {"model": "tiny", "messages": MESSAGES, "temperature": 0, "max_tokens": 20}
    text = client.chat.completions.create(**asked).choices[0].message.content
    assert text is not None
    stop = text[5:8]
    stopped = client.chat.completions.create(**asked, stop=stop).choices[0]
    assert stopped.message.content == text[: text.index(stop)]
    assert stopped.finish_reason == "stop"


def test_models_are_listed_and_deleted(served: Served, base: Base, tmp_path: Path) -> None:
    mine = train(served, tmp_path, base, "eve")
    eve = served.client(served.users["eve"])
    listed = eve.models.list().data
    assert [one.id for one in listed] == ["tiny", mine.name]
    assert (listed[0].owned_by, listed[1].owned_by) == ("auctune", "eve")
    checkpoint = f"{mine.name}:ckpt-step-7"
    assert eve.models.retrieve("tiny") == listed[0]
    assert eve.models.retrieve(checkpoint).id == checkpoint

    assert eve.models.retrieve("gpt-4o-mini").id == "gpt-4o-mini"
    named = eve.completions.create(model="gpt-4o-mini", prompt="Once", max_tokens=1)
    assert named.model == "gpt-4o-mini"

    # Other users' models are as unknown as names that nobody has.
    ada = served.client()
    for name in (mine.name, checkpoint, "ft:tiny::none", "gpt-none"):
        for ask in (ada.models.retrieve, ada.models.delete):
            with pytest.raises(openai.NotFoundError) as unknown:
                ask(name)
            assert unknown.value.code == "model_not_found"
            assert unknown.value.message.replace(name, "") == unknown.value.message.replace(
                repr(name), "''"
            )
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        ada.chat.completions.create(model=mine.name, messages=MESSAGES)
    with pytest.raises(openai.PermissionDeniedError):
        eve.models.delete("tiny")

    deleted = eve.models.delete(mine.name)
    assert (deleted.id, deleted.deleted) == (mine.name, True)
    assert [one.id for one in eve.models.list()] == ["tiny"]
    with pytest.raises(openai.NotFoundError):
        eve.chat.completions.create(model=mine.name, messages=MESSAGES)
    # Its result file is deleted, the checkpoint's is not.
    archive = eve.fine_tuning.jobs.retrieve(mine.job).result_files[-1]
    with pytest.raises(openai.NotFoundError):
        eve.files.retrieve(archive)
    eve.chat.completions.create(model=checkpoint, messages=MESSAGES, max_tokens=1)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 0}, "n"),
        ({"temperature": 2.5}, "temperature"),
        ({"top_p": "1"}, "top_p"),
        ({"presence_penalty": 0.5}, "presence_penalty"),
        ({"logit_bias": {"1": 5}}, "logit_bias"),
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        ({"audio": {"voice": "a"}}, "audio"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"max_tokens": 3, "max_completion_tokens": 3}, "max_tokens"),
        ({"stop": list("abcde")}, "stop"),
        ({"wibble": 1}, "wibble"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "you", "content": "a"}]}, "messages[0].role"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            "messages[0]",
        ),
        ({"messages": [{"role": "user", "content": "word " * 2000}]}, "messages"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools[0]"),
    ],
)
def test_what_is_not_offered_is_refused_by_name(
    served: Served, fields: dict[str, Any], param: str
) -> None:
    body = {"model": "tiny", "messages": MESSAGES, **fields}
    with served.http() as http:
        for more in ({"stream": False}, {"stream": "stream_options" not in fields}):
            answer = http.post("/v1/chat/completions", json={**body, **more})
            error = answer.json()["error"]
            assert answer.status_code == 400
            assert (error["param"], error["code"]) == (param, "invalid_value")


def test_neutral_values_and_what_changes_no_answer_are_accepted(served: Served) -> None:
    answer = served.client().chat.completions.create(
        model="tiny",
        messages=[
            {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
            {"role": "user", "content": QUESTION, "name": "ada"},
            {"role": "assistant", "content": "Sunny.", "refusal": None},
            {"role": "user", "content": "And tomorrow?"},
        ],
        n=1,
        max_tokens=1,
        presence_penalty=0,
        frequency_penalty=0.0,
        logit_bias={},
        response_format={"type": "text"},
        modalities=["text"],
        parallel_tool_calls=True,
        tool_choice="none",
        store=False,
        metadata={"a": "b"},
        user="someone",
        service_tier="auto",
        top_p=0,
    )
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 1


def wait_until_done(served: Served) -> None:
    poll(lambda: served.num_open_answers() == 0, "the end of all requests")
    # They are charged on the loop, after that.
    served.run(settled)


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def completion_tokens(served: Served) -> float:
    lines = served.service.metrics.render().decode().splitlines()
    start = 'auctune_tokens_total{base="tiny",part="completion"} '
    return next(float(line.removeprefix(start)) for line in lines if line.startswith(start))


MANY = {"model": "tiny", "prompt": "Once", "max_tokens": 100, "n": 64, "seed": 1, "temperature": 2}


@pytest.mark.slow
def test_a_client_that_leaves_cancels_its_answers(served: Served) -> None:
    served.client().completions.create(model="tiny", prompt="Once", max_tokens=1)
    with served.http() as http:
        total = http.post("/v1/completions", json=MANY).json()["usage"]["completion_tokens"]

        def generated_for_one_that_leaves() -> float:
            before = completion_tokens(served)
            with http.stream("POST", "/v1/completions", json={**MANY, "stream": True}) as answer:
                assert answer.status_code == 200
                next(answer.iter_lines())
            wait_until_done(served)
            return completion_tokens(served) - before

        # A test that had no processor for a second may have left too late.
        assert any(generated_for_one_that_leaves() < total for _ in range(20))


def test_too_many_waiting_requests_of_a_user_are_refused(served: Served) -> None:
    body = {"model": "tiny", "prompt": "Once", "max_tokens": 1}
    with served.http() as http, ThreadPoolExecutor(4) as threads:
        assert http.post("/v1/completions", json=body).status_code == 200
        with served.held_answers():
            asked = [threads.submit(http.post, "/v1/completions", json=body) for _ in range(4)]
            answers = as_completed(asked)
            refused = [next(answers).result() for _ in range(2)]
        assert [one.status_code for one in refused] == [429, 429]
        assert refused[0].json()["error"]["code"] == "limit_reached"
        assert [one.result().status_code for one in answers] == [200, 200]


def test_a_process_that_ends_is_an_error_of_the_service_and_starts_again(served: Served) -> None:
    asked = {"model": "tiny", "prompt": "Once", "max_tokens": 1}
    generator = served.service.generation._generators["tiny"]
    with served.http() as http:
        http.post("/v1/completions", json=asked)
        with http.stream("POST", "/v1/completions", json={**MANY, "stream": True}) as answer:
            lines = answer.iter_lines()
            next(lines)
            assert generator.pid is not None
            os.kill(generator.pid, signal.SIGKILL)
            last = [line for line in lines if line][-1]
        error = json.loads(last.removeprefix("data: "))["error"]
        assert (error["type"], error["code"]) == ("server_error", "unavailable")
        assert http.post("/v1/completions", json=asked).status_code == 200


def test_answers_are_charged_and_refused_once_the_budget_is_used_up(
    tmp_path: Path, tiny_cache: Path
) -> None:
    file = priced("10.0000")
    asked: Any = {"model": "tiny", "prompt": "Once upon a time", "max_tokens": 10, "seed": 1}
    with serving(tmp_path / "market", file, bases=tiny_cache) as served:
        budget = Budget(Decimal("0.2000"), 3600.0)
        client = served.client(served.key("ada", budget=budget))
        usage = client.completions.create(**asked).usage
        assert usage is not None
        amount = Decimal(usage.total_tokens) / 100
        with served.http() as http:
            assert Decimal(http.get("/v1/ledger").json()["balance"]) == amount
            (entry,) = http.get("/v1/ledger/entries").json()["data"]
            assert (Decimal(entry["amount"]), entry["job"]) == (amount, None)
            # What it may cost at most is more than is left: nothing is generated.
            stream = http.post("/v1/completions", json={**asked, "stream": True})
            assert (stream.status_code, stream.json()["error"]["code"]) == (
                429,
                "insufficient_quota",
            )
            assert Decimal(http.get("/v1/ledger").json()["balance"]) == amount
        assert sum(served.service.queries.balances().values()) == 0
        events = [
            json.loads(row.body)
            for row in served.service.log.read_zone("default", 0)
            if row.type == EventType.TOKENS_USED
        ]
        assert [one["model"] for one in events] == ["tiny"]
        assert events[0]["amount"] == str(amount.quantize(Decimal("0.0001")))
        # Others pay with their own budget.
        served.client(served.key("eve")).completions.create(**asked)
    # After a restart the budget is still used up.
    with serving(tmp_path / "market", file, bases=tiny_cache) as again:
        client = again.client(again.key("ada"))
        with pytest.raises(openai.RateLimitError):
            client.completions.create(**asked)


@pytest.mark.slow
def test_others_are_answered_between_the_prompts_and_answers_of_a_request(served: Served) -> None:
    eve = served.client(served.key("eve"))
    for more in ({"n": 16}, {"n": 1, "prompt": ["Once"] * 16}):
        with served.http() as http:
            asked = {**MANY, **more, "stream": True}
            with http.stream("POST", "/v1/completions", json=asked) as answer:
                lines = answer.iter_lines()
                next(lines)
                eve.completions.create(model="tiny", prompt="Once", max_tokens=1)
                assert served.num_open_answers() > 0
                chunks = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
        ended = [one["choices"][0] for one in chunks if one["choices"][0]["finish_reason"]]
        assert sorted(one["index"] for one in ended) == list(range(16))


def priced(price: str) -> ServiceConfig:
    limits = LIMITS.model_copy(update={"price": Decimal(price)})
    return make_file([make_zone()]).model_copy(update={"inference": limits})


def test_what_was_read_of_a_stream_that_is_cut_is_charged(tmp_path: Path, tiny_cache: Path) -> None:
    with serving(tmp_path, priced("1000.0000"), bases=tiny_cache) as served, served.http() as http:
        body = {**MANY, "n": 1, "max_tokens": 400, "stream": True, "logprobs": 0}
        num_read = 0
        with http.stream("POST", "/v1/completions", json=body) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    num_read += len(json.loads(line[6:])["choices"][0]["logprobs"]["tokens"])
                if num_read >= 20:
                    break
        wait_until_done(served)
        while not (entries := http.get("/v1/ledger/entries").json()["data"]):
            time.sleep(0.01)
        (entry,) = entries
        # One more for each token of the prompt.
        assert 20 < Decimal(entry["amount"]) < 400


def test_answers_count_to_the_budget_of_their_key_also_after_a_restart(
    tmp_path: Path, tiny_cache: Path
) -> None:
    asked = {"model": "tiny", "prompt": "Once", "max_tokens": 1}

    def ask(served: Served, secret: str) -> int:
        with served.http(secret) as http:
            return http.post("/v1/completions", json=asked).status_code

    with serving(tmp_path, priced("1000.0000"), bases=tiny_cache) as served:
        with served.http(served.operator) as http:
            http.post("/v1/users", json={"id": "ada"})
            second = http.post("/v1/keys", json={"user": "ada"}).json()
        with served.http(second["secret"]) as http:
            usage = http.post("/v1/completions", json=asked).json()["usage"]
        # What one answer costs, at 1 for each token: it suffices once.
        cost = f"{usage['prompt_tokens'] + 1}.0000"
        with served.http(served.operator) as http:
            budget = {"amount": cost, "seconds": 3600.0}
            first = http.post("/v1/keys", json={"user": "ada", "budget": budget}).json()
        assert [ask(served, first["secret"]) for _ in range(2)] == [200, 429]
        assert ask(served, second["secret"]) == 200
    with serving(tmp_path, priced("1000.0000"), served.clock, bases=tiny_cache) as again:
        assert ask(again, first["secret"]) == 429
        with again.http(again.operator) as http:
            listed = {one["id"]: one for one in http.get("/v1/keys").json()["data"]}
        assert Decimal(listed[first["id"]]["budget_spent"]) == usage["total_tokens"]
