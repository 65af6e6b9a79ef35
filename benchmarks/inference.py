"""Answers of a chat model: time to the first token, speed of many adapters, and sold slots beside.

    auctune base smollm2 --out out/smollm2
    auctune profile --base out/smollm2 --out out/smollm2.json
    python benchmarks/inference.py [--slots N]

A service with a zone of one node trains eight adapters. OpenAI's client asks it, over HTTP on this machine, greedily.

| what | how |
| --- | --- |
| first token | time from a streamed request to its first text, one request at a time, adapters in turn, the process warm; median and 90th percentile |
| eight adapters | tokens a second of eight requests to eight adapters at once, against the same one after the other, alternately; median of the ratios |
| sold slots | jobs are submitted until the node has no capacity for the next N slots; what was trained of each slot's plan, and which jobs ended as planned; once without requests, once with eight clients that ask without a pause |

Exit code 1 if a goal is missed.
"""  # noqa: E501

import argparse
import asyncio
import itertools
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessageParam
from openai.types.fine_tuning import FineTuningJob
from rich.console import Console
from rich.table import Table
from sqlalchemy import create_engine, select

from auctune.service.storage.tables import events

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from support.service_process import ServiceProcess, running

ROOT = Path(__file__).resolve().parent.parent
BASE = ROOT / "out" / "smollm2"
PROFILE = BASE.with_suffix(".json")
ROWS = ROOT / "examples" / "chat-model" / "data" / "reviews.jsonl"

NUM_ADAPTERS = 8
FIRST_TOKENS = 40
REPEATS = 5
MAX_TOKENS = 48
FIRST_TOKEN_GOAL = 0.300
SPEED_GOAL = 1.5
SLOT_SECONDS = 20.0
HEADROOM = 0.25
# Of the node, that each job takes.
SHARE = 0.25
# The adapters' jobs: some rows, in a slot or two.
FEW_ROWS = 16

CONFIG = f"""
[default_terms]
bid = "1000"

[[zones]]
name = "auction"
base = "{BASE}"
slot_seconds = {SLOT_SECONDS}
slots = {{slots}}

[zones.auction]
pricing = "exponential"
compute_low = 0.0005
compute_high = 0.004

[zones.node_types.cpu]
profile = "{PROFILE}"
headroom = {HEADROOM}

[[zones.nodes]]
id = "cpu0"
type = "cpu"
"""


@dataclass(frozen=True, slots=True)
class Figure:
    """A row of the table."""

    name: str
    value: str
    goal: str
    reached: bool


@dataclass(frozen=True, slots=True)
class SoldSlots:
    """What became of slots that were sold.

    Attributes:
        sold: share of the node's slots.
        num_jobs: that hold them.
        failed: jobs that did not succeed.
        replanned: times that a slot trained less than planned, and its job got other slots.
        slot_seconds: that the node trained in each slot.
        lateness: seconds from the end of the slots that a job bought to its result, per job.
        tokens: of answers meanwhile, per second.
    """

    sold: float
    num_jobs: int
    failed: int
    replanned: int
    slot_seconds: list[float]
    lateness: list[float]
    tokens: float


def main() -> int:
    """Run the benchmark; return 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--slots", type=int, default=9, metavar="N", help="slots that are sold")
    num_slots = parser.parse_args().slots
    for path in (BASE, PROFILE):
        if not path.exists():
            print(f"{path} does not exist; it is made as described in {__file__}", file=sys.stderr)
            return 2
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "auctune.toml"
        config.write_text(CONFIG.format(slots=num_slots))
        with running(config, Path(folder) / "data") as service:
            figures = asyncio.run(measure(service, num_slots))
    table = Table("", "measured", "goal", "reached", title="SmolLM2-135M, answers over HTTP")
    for figure in figures:
        table.add_row(figure.name, figure.value, figure.goal, "yes" if figure.reached else "no")
    Console().print(table)
    return 0 if all(figure.reached for figure in figures) else 1


async def measure(service: ServiceProcess, num_slots: int) -> list[Figure]:
    async with AsyncOpenAI(
        base_url=f"{service.url}/v1", api_key=service.key, max_retries=0, timeout=600
    ) as client:
        models = await train_adapters(client)
        figures = [await measure_first_token(client, models), await measure_speed(client, models)]
        alone = await sell_slots(service, client, num_slots, ())
        print_sold("without requests", alone)
        busy = await sell_slots(service, client, num_slots, models)
        print_sold("with requests", busy)
    return [*figures, sold_figure(alone, busy)]


async def train_adapters(client: AsyncOpenAI) -> list[str]:
    """Return the names of fine-tuned models, each of a job with a few rows."""
    data = await few_rows(client)
    jobs = [await submit(client, data, deadline="+1h") for _ in range(NUM_ADAPTERS)]
    ended = [await wait_for(client, job.id) for job in jobs]
    if failed := [job.error for job in ended if job.status != "succeeded"]:
        raise RuntimeError(f"{len(failed)} adapters were not trained: {failed[0]}")
    print(f"trained {NUM_ADAPTERS} adapters", flush=True)
    return [str(job.fine_tuned_model) for job in ended]


async def few_rows(client: AsyncOpenAI) -> str:
    rows = ROWS.read_bytes().splitlines(keepends=True)[:FEW_ROWS]
    file = ("few.jsonl", b"".join(rows))
    return str((await client.files.create(file=file, purpose="fine-tune")).id)


async def submit(client: AsyncOpenAI, data: str, deadline: str) -> FineTuningJob:
    """Submit a job for a quarter of the node, and wait for its decision."""
    job = await client.fine_tuning.jobs.create(
        model=str(BASE),
        training_file=data,
        hyperparameters={"n_epochs": 1, "batch_size": 4},
        extra_body={"market": {"deadline": deadline, "share": SHARE}},
    )
    while job.status == "validating_files":
        await asyncio.sleep(0.2)
        job = await client.fine_tuning.jobs.retrieve(job.id)
    return job


async def wait_for(client: AsyncOpenAI, job: str) -> FineTuningJob:
    while True:
        found = await client.fine_tuning.jobs.retrieve(job)
        if found.status in ("succeeded", "failed", "cancelled"):
            return found
        await asyncio.sleep(0.5)


async def measure_first_token(client: AsyncOpenAI, models: Sequence[str]) -> Figure:
    await asyncio.gather(*(num_answered_tokens(client, model, "lamp") for model in models))
    waits = [
        await first_token_seconds(client, models[number % len(models)], f"lamp {number}")
        for number in range(FIRST_TOKENS)
    ]
    median, late = statistics.median(waits), statistics.quantiles(waits, n=10)[-1]
    value = f"p50 {1000 * median:.0f} ms, p90 {1000 * late:.0f} ms"
    goal = f"p50 <= {1000 * FIRST_TOKEN_GOAL:.0f} ms"
    return Figure("first token", value, goal, median <= FIRST_TOKEN_GOAL)


async def first_token_seconds(client: AsyncOpenAI, model: str, product: str) -> float:
    started = time.perf_counter()
    stream = await client.chat.completions.create(
        model=model, messages=question(product), max_tokens=4, temperature=0, stream=True
    )
    async for chunk in stream:
        if chunk.choices and chunk.choices[0].delta.content:
            await stream.close()
            break
    return time.perf_counter() - started


async def num_answered_tokens(client: AsyncOpenAI, model: str, product: str) -> int:
    answer = await client.chat.completions.create(
        model=model, messages=question(product), max_tokens=MAX_TOKENS, temperature=0
    )
    assert answer.usage is not None
    return int(answer.usage.completion_tokens)


def question(product: str) -> list[ChatCompletionMessageParam]:
    text = f"Read this review as JSON: The {product} came broken, and nobody answers my messages."
    return [{"role": "user", "content": text}]


async def measure_speed(client: AsyncOpenAI, models: Sequence[str]) -> Figure:
    ratios, speeds = [], []
    for number in range(REPEATS):
        started = time.perf_counter()
        tokens = sum([await num_answered_tokens(client, one, f"tent {number}") for one in models])
        alone = tokens / (time.perf_counter() - started)
        started = time.perf_counter()
        answers = (num_answered_tokens(client, one, f"tent {number}") for one in models)
        tokens = sum(await asyncio.gather(*answers))
        together = tokens / (time.perf_counter() - started)
        ratios.append(together / alone)
        speeds.append((together, alone))
    ratio = statistics.median(ratios)
    together, alone = (statistics.median(one) for one in zip(*speeds, strict=True))
    value = f"{ratio:.2f}x ({together:.0f} and {alone:.0f} tokens/s)"
    return Figure("eight adapters at once", value, f">= {SPEED_GOAL}x", ratio >= SPEED_GOAL)


async def sell_slots(
    service: ServiceProcess, client: AsyncOpenAI, num_slots: int, models: Sequence[str]
) -> SoldSlots:
    """Sell the node's next slots, ask models all the time, and wait for the jobs."""
    data = await few_rows(client)
    deadline = f"+{num_slots * SLOT_SECONDS:.0f}s"
    jobs: list[FineTuningJob] = []
    while (job := await submit(client, data, deadline)).status != "failed":
        jobs.append(job)
    cells = [cell["slot"] for job in jobs for cell in market(job)["plan"]["cells"]]
    num_tokens: Counter[str] = Counter()
    started = time.perf_counter()
    asking = [asyncio.create_task(ask_on(client, model, num_tokens)) for model in models]
    ended = [await wait_for(client, job.id) for job in jobs]
    seconds = time.perf_counter() - started
    for task in asking:
        task.cancel()
    for result in await asyncio.gather(*asking, return_exceptions=True):
        if isinstance(result, Exception):
            raise result
    found = read_events(service.data, {job.id for job in jobs})
    return SoldSlots(
        sold=SHARE * len(cells) / (max(cells) - min(cells) + 1),
        num_jobs=len(jobs),
        failed=sum(job.status != "succeeded" for job in ended),
        replanned=sum(type_ == "job.replanned" for type_, _ in found),
        slot_seconds=list(
            {b["slot"]: b["seconds"] for t, b in found if t == "job.trained"}.values()
        ),
        lateness=[
            after.finished_at - market(before)["plan"]["finish"]
            for before, after in zip(jobs, ended, strict=True)
            if after.finished_at is not None
        ],
        tokens=num_tokens.total() / seconds,
    )


def market(job: FineTuningJob) -> dict[str, Any]:
    """Return the field of a job that OpenAI's API does not have."""
    assert job.model_extra is not None
    found: dict[str, Any] = job.model_extra["market"]
    return found


async def ask_on(client: AsyncOpenAI, model: str, num_tokens: "Counter[str]") -> None:
    """Ask a model without a pause; count the pieces of its answers, a token each."""
    for number in itertools.count():
        stream = await client.chat.completions.create(
            model=model,
            messages=question(f"chair {number}"),
            max_tokens=MAX_TOKENS,
            temperature=0,
            stream=True,
        )
        async for chunk in stream:
            num_tokens[model] += bool(chunk.choices and chunk.choices[0].delta.content)


def read_events(data: Path, jobs: Set[str]) -> list[tuple[str, dict[str, Any]]]:
    """Return types and bodies of the events of jobs, by the log."""
    engine = create_engine(f"sqlite:///{data / 'auctune.db'}")
    with engine.connect() as connection:
        rows = connection.execute(select(events.c.job, events.c.type, events.c.body)).all()
    engine.dispose()
    return [(row.type, json.loads(row.body)) for row in rows if row.job in jobs]


def print_sold(name: str, found: SoldSlots) -> None:
    print(
        f"{name}: {found.sold:.0%} of the slots sold to {found.num_jobs} jobs, {found.failed} "
        f"failed, {found.replanned} slots short; a slot trained "
        f"{statistics.median(found.slot_seconds):.1f} s (median), {max(found.slot_seconds):.1f} s "
        f"(most) of {SLOT_SECONDS:.0f}; results {max(found.lateness):.1f} s after the "
        f"last slot at most; {found.tokens:.1f} tokens/s of answers",
        flush=True,
    )


def sold_figure(alone: SoldSlots, busy: SoldSlots) -> Figure:
    """Return whether sold slots are as punctual with requests as without."""
    value = (
        f"{busy.failed} of {busy.num_jobs} jobs failed, {busy.replanned} slots short at "
        f"{busy.tokens:.0f} tokens/s; without requests {alone.failed} and {alone.replanned}"
    )
    reached = not busy.failed and busy.replanned <= alone.replanned
    return Figure(f"{busy.sold:.0%} of slots sold", value, "none late", reached)


if __name__ == "__main__":
    sys.exit(main())
