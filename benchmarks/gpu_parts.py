"""Parts of `benchmarks/gpu.py`: each yields figures, and may be ended at any time."""

import asyncio
import copy
import gc
import itertools
import json
import os
import queue
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from auctune.domain.data_size import DataSize
from auctune.domain.generation import AnswerEnd, GenerationRequest, SamplingParams
from auctune.engine.base_place import base_cache
from auctune.engine.generation import (
    Generator,
    GeneratorSettings,
    InferenceError,
    VllmSettings,
)
from auctune.engine.messages.node import (
    Ended,
    NodeMessage,
    NodeReady,
    NotCompleted,
    Progress,
    RequestFailed,
    TaskQuota,
    Trained,
)
from auctune.engine.runtime.local import LocalLauncher
from auctune.engine.runtime.nodes import NodeSettings, node_workers
from auctune.engine.runtime.supervisor import Executor
from auctune.engine.unix_time import unix_time
from auctune.files.device_profile import Profile, job_token_cost, read_profile
from auctune.train.adapter_files import write_record
from auctune.train.base import Base, load_base
from auctune.train.export import ExportError, export_adapter
from auctune.train.job import LoraJob
from auctune.train.trainer import MultiLoraTrainer
from entries import BUDGETS, Fixture, FusedLoop, Peak, synchronize
from random_bases import random_llama, random_llama_folder
from training import BATCH, FROZEN, PEFT, SHORTEST, TRL, WARM_UP, Case, Figure, speed

ROOT = Path(__file__).parents[1]
RANKS = (4, 8, 16, 16, 32, 32, 64, 64)
VLLM = "AUCTUNE_VLLM"
# Names of figures in the table.
IDLE = "GPU idle between two slots, 8 tasks of rank 16 (llama-8b)"
TRAINING_SHARE = "share of a slot's time in which the GPU trains, the same tasks"
FIRST_ADAPTER = "`auctune run`, llama-1b: first bid to first trained adapter, beyond its slots"
SOLD = "`auctune run`, llama-1b, ranks 4 to 64: speed sold over speed reached"
MARKET = "`auctune run`, llama-1b: trained, checked adapters"
TESTS = "tests marked `gpu`, a worker of each kind among them"
EXPORTS = "exports (llama-8b, bfloat16): adapters that pass"
FAULTS = {
    "half a scale more": "refused 8 of 8",
    "B of every other layer lost": "not measured",
    "B of all MLPs lost": "refused 7 of 7",
    "the other sign": "refused 7 of 7",
}


def answers_by(engine: str) -> str:
    return f"16 answers of 8 adapters at once (llama-8b), {engine}"


@dataclass(frozen=True)
class Place:
    """Where a part runs.

    Attributes:
        device: the GPU.
        folder: the part's own.
        shared: folder of the bases of all parts.
        out: folder of the results.
    """

    device: torch.device
    folder: Path
    shared: Path
    out: Path


def tokens_of(device: torch.device) -> int:
    """Return the tokens of a row of the speeds."""
    return 512 if device.type == "cuda" else 16


# Each file in a process of its own, all at the same time: most of their time is that of starts.
TEST_FILES = (
    "tests/unit/train/test_gpu.py",
    "tests/unit/train/multilora/test_fused_modules.py",
    "tests/unit/train/multilora/test_triton_kernels.py",
    "tests/integration/test_workers_on_devices.py",
)


def tests(_: Place) -> Iterator[Figure]:
    """Run the tests that need a GPU, and compile the market's kernels."""
    started = time.monotonic()
    options = ["-q", "-m", "gpu", "-p", "no:cacheprovider"]
    pytest = [sys.executable, "-m", "pytest", *options]
    compiling = subprocess.Popen(
        [sys.executable, "-m", "auctune", "doctor", "--compile"], stdout=subprocess.DEVNULL
    )
    running = [
        subprocess.Popen([*pytest, file], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for file in TEST_FILES
    ]
    failed = False
    counts: dict[str, int] = {}
    for file, process in zip(TEST_FILES, running, strict=True):
        output = process.communicate()[0]
        failed |= process.returncode != 0
        if process.returncode:
            print(output[-8000:])
        last = (output.strip().splitlines() or ["no output"])[-1]
        print(f"{file}: {last}", flush=True)
        for count, what in re.findall(r"(\d+) (passed|failed|errors?|skipped)", last):
            counts[what] = counts.get(what, 0) + int(count)
    found = ", ".join(f"{count} {what}" for what, count in counts.items()) or "no test ran"
    seconds = time.monotonic() - started
    yield Figure(TESTS, f"{found} in {seconds:.0f} s", "all pass", bool(counts) and not failed)
    compiling.wait()


def speeds(place: Place) -> Iterator[Figure]:
    """Compare the trainer with others on the 8B shape; measure the 1B shape; profile a step."""
    device, tokens = place.device, tokens_of(place.device)
    base = random_llama("llama-8b", device)
    yield Figure("peak", Peak(device, base.dtype).source)
    fixture = Fixture(place.folder, base)
    goals = {FROZEN: 1.2, PEFT: 4.5, BATCH: 1.5, TRL: 1.3}
    yield from speed(fixture, Case(8, 1, tokens), goals, 5)
    yield from speed(fixture, Case(1, 1, tokens), {PEFT: 1.2}, 5)
    yield profiled(fixture, tokens, place.out)
    del fixture, base
    free(device)
    fixture = Fixture(place.folder, random_llama("llama-1b", device))
    (figure,) = speed(fixture, Case(8, 1, tokens), {}, 5, others=False)
    taken = float(figure.value.partition(" ms")[0].replace(",", ""))
    yield replace(figure, goal="<= 80 ms", reached=taken <= 80)


def free(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def profiled(fixture: Fixture, tokens: int, out: Path) -> Figure:
    """Write what torch's profiler says of a step of 8 adapters; return its summary."""
    loop = FusedLoop(fixture, Case(8, 1, tokens).jobs(fixture, 8, 1))
    for _ in range(WARM_UP[fixture.device.type]):
        loop.step()
    device = fixture.device
    activities = [ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities) as found:
        taken = loop.step().seconds
        synchronize(device)
    averages = found.key_averages()
    parts = [averages.table(sort_by="self_cpu_time_total", row_limit=40)]
    value = f"{1e3 * taken:.0f} ms under the profiler"
    if device.type == "cuda":
        parts.insert(0, averages.table(sort_by="self_device_time_total", row_limit=50))
        busy = sum(event.self_device_time_total for event in averages) / 1e3
        launches = sum(event.count for event in averages if "LaunchKernel" in event.key)
        waits = sum(event.count for event in averages if "Synchronize" in event.key)
        value += f", {busy:.0f} ms of the device, {launches:,} launches, {waits} synchronizations"
    (out / "profile.txt").write_text("\n\n".join(parts))
    return Figure("llama-8b, a step of 8 adapters (profile.txt)", value)


def exports(place: Place) -> Iterator[Figure]:
    """Export trained adapters, and the same with planted faults."""
    base = random_llama("llama-8b", place.device)
    fixture = Fixture(place.folder, base)
    trainer = MultiLoraTrainer(base, token_budget=BUDGETS[place.device.type])
    jobs = [fixture.job(1, tokens_of(place.device), rank=rank) for rank in RANKS]
    for job in jobs:
        trainer.load(job, place.folder / job.id)
    # Each fault takes seconds a job.
    tried = (jobs[0], jobs[-1])
    shares: list[float] = []
    refused: dict[str, int] = {}
    for steps in (1, 20):
        trainer.train({job.id: steps for job in jobs}, lambda _: None)
        for job in jobs:
            share, config, weights, again = exported(
                base, trainer, job.id, place.folder / "adapter"
            )
            shares.append(share)
            faults = faulty(config, weights) if steps > 1 and job in tried else {}
            for fault, arguments in faults.items():
                refused[fault] = refused.get(fault, 0) + (again(*arguments) is None)
    yield Figure(
        EXPORTS,
        f"{sum(share <= 1 for share in shares)} of {len(shares)}; "
        f"largest difference {max(shares):.0%} of what is allowed",
        "all",
        max(shares) <= 1,
    )
    for fault, count in refused.items():
        text = f"refused {count} of {len(tried)}"
        yield Figure(f"exports with {fault}", text, "all refused", count == len(tried))


Again = Callable[[LoraConfig, dict[str, Tensor]], float | None]


def exported(
    base: Base, trainer: MultiLoraTrainer, job: str, folder: Path
) -> tuple[float, LoraConfig, dict[str, Tensor], Again]:
    """Export a job's adapter; return its share of what is allowed, and how to do it with others."""
    task = trainer._place(job).task
    name = task.weights.name

    def again(config: LoraConfig, weights: dict[str, Tensor]) -> float | None:
        try:
            result = export_adapter(
                base,
                config,
                weights,
                folder,
                rows=task.rows.data.rows,
                trained_logits=lambda row: trainer.loop.step.logits(name, row),
            )
        except ExportError as error:
            print(f"{job}: {error}", flush=True)
            return None
        print(f"{job}: {result}", flush=True)
        return result.difference / result.allowed

    config, weights = trainer.task(job).weights.config, dict(trainer.weights(job))
    share = again(config, weights)
    return float("inf") if share is None else share, config, weights, again


def faulty(
    config: LoraConfig, weights: dict[str, Tensor]
) -> dict[str, tuple[LoraConfig, dict[str, Tensor]]]:
    """Return configurations and weights that are not what was trained."""
    scaled = copy.deepcopy(config)
    scaled.lora_alpha = 1.5 * scaled.lora_alpha
    ups = [name for name in weights if "lora_B" in name]
    parts = {
        "half a scale more": None,
        "B of every other layer lost": r"\.\d*[13579]\.",
        "B of all MLPs lost": r"\.mlp\.",
        "the other sign": "",
    }
    found = {}
    for fault, pattern in parts.items():
        changed = {
            name: (-value if fault == "the other sign" else 0 * value)
            if pattern is not None and name in ups and re.search(pattern, name)
            else value
            for name, value in weights.items()
        }
        found[fault] = (scaled if pattern is None else config, changed)
    return found


MARKET_SLOT_SECONDS = 8
# Two groups of bids, each for all of three slots: a bid takes a quarter of the node.
GROUPS = ((8, 16, 4, 64), (8, 32, 16, 64))
GROUP_SLOTS = 3
EPOCHS = 4
SAMPLE_TOKENS = 64
NUM_BIDS = sum(map(len, GROUPS))


def filling_job(fixture: Fixture, profile: Profile, tokens: int, rank: int) -> LoraJob:
    """Return a job with as many rows of mixed lengths as fill a bid's share of its slots."""
    rows, longest = 8, max(64, tokens)
    like = fixture.job(rows, longest, shortest=SHORTEST, rank=rank, num_rows=64)
    lengths = [len(row) for row in fixture.rows(like)]
    squares = sum(length**2 for length in lengths)
    size = DataSize(len(lengths), sum(lengths) / len(lengths), square_tokens=squares / len(lengths))
    batch, cost = profile.batch(like, size), job_token_cost(like, size, [profile])
    sold = GROUP_SLOTS * profile.throughput(MARKET_SLOT_SECONDS, SAMPLE_TOKENS, batch)
    room = int(sold * SAMPLE_TOKENS / cost / EPOCHS)
    num_rows = 2 * room // int(size.mean_tokens) + 1
    job = fixture.job(rows, longest, shortest=SHORTEST, rank=rank, num_rows=num_rows)
    ends = itertools.accumulate(len(row) for row in fixture.rows(job))
    count = sum(1 for _ in itertools.takewhile(lambda end: end <= room, ends))
    job.data.write_text("\n".join(job.data.read_text().splitlines()[:count]))
    return job


def market_file(base: Path, measured: Path, fixture: Fixture, device: torch.device) -> str:
    """Return a market of one node, all of which is sold: bids of mixed ranks and row lengths."""
    lines = [
        'title = "GPU"',
        f'base = "{base}"',
        f'dtype = "{dtype_of(device)}"',
        f"slots = {GROUP_SLOTS * len(GROUPS)}",
        f"slot_seconds = {MARKET_SLOT_SECONDS}",
        "threads = 1",
        f"sample_tokens = {SAMPLE_TOKENS}",
        "[auction]",
        'pricing = "exponential"',
        "compute_low = 0.0000005",
        "compute_high = 0.000004",
        "memory_low = 0.0001",
        "memory_high = 0.01",
        "[node_types.one]",
        f'profile = "{measured}"',
        f'device = "{device}"',
        "energy_cost = 0.01",
        "[[nodes]]",
        'id = "one"',
        'type = "one"',
    ]
    for group, ranks in enumerate(GROUPS):
        for rank in ranks:
            job = filling_job(fixture, read_profile(measured), tokens_of(device), rank)
            lines += [
                "[[bids]]",
                f'id = "{job.id}"',
                f'data = "{job.data}"',
                "bid = 10.0",
                f"arrival = {GROUP_SLOTS * group}",
                f"deadline = {GROUP_SLOTS * (group + 1) - 1}",
                f"epochs = {EPOCHS}",
                f"batch_size = {job.batch_size}",
                f"max_length = {job.max_length}",
                "truncate = true",
                f"rank = {rank}",
            ]
    return "\n".join(lines)


def dtype_of(device: torch.device) -> str:
    return "bfloat16" if device.type == "cuda" else "float32"


def market(place: Place) -> Iterator[Figure]:
    """Measure a node, and run a market on it until all adapters are there."""
    device, folder = place.device, place.folder
    base = random_llama_folder("llama-1b", device, place.shared)
    free(device)
    auctune, out, measured = [sys.executable, "-m", "auctune"], folder / "out", folder / "one.json"
    options = ["--device", str(device), "--dtype", dtype_of(device), "--threads", "1"]
    files = ["--base", str(base), "--out", str(measured)]
    subprocess.run([*auctune, "profile", *files, *options, "--seconds", "20"], check=True)
    fixture = Fixture(folder, load_base("tiny", cache=base_cache()))
    (folder / "market.toml").write_text(market_file(base, measured, fixture, device))
    started = time.time()
    command = [*auctune, "run", str(folder / "market.toml"), "--out", str(out)]
    code = subprocess.run(command, cwd=ROOT).returncode
    adapters = list(out.glob("tasks/*/adapter"))
    seconds = time.time() - started
    found = f"{len(adapters)} of {NUM_BIDS} bids, exit code {code}, in {seconds:.0f} s"
    yield Figure(MARKET, found, "all", len(adapters) == NUM_BIDS and code == 0)
    if not adapters:
        return
    trained = trained_slots(out / "state" / "auctune.db")
    # A folder gets its name once it is complete.
    first = min(adapters, key=lambda adapter: adapter.stat().st_ctime)
    in_slots = sum(
        min(slot.seconds, MARKET_SLOT_SECONDS)
        for slot in trained.values()
        if first.parent.name in slot.jobs
    )
    beyond = first.stat().st_ctime - started - in_slots
    yield Figure(FIRST_ADAPTER, f"{beyond:.0f} s", "<= 60 s", beyond <= 60)
    sold = json.loads((out / "report.json").read_text())["utilization"]["compute"]
    full = [number for number in trained if sold[number][0] > 0.9]
    used = sum(trained[number].seconds for number in full)
    ratio = used / sum(MARKET_SLOT_SECONDS * sold[number][0] for number in full) if full else 0.0
    num_short = sum(slot.seconds > MARKET_SLOT_SECONDS for slot in trained.values())
    text = (
        f"{ratio:.0%} in {len(full)} slots of {MARKET_SLOT_SECONDS} s that were sold whole; "
        f"{num_short} of {len(trained)} slots short"
    )
    yield Figure(SOLD, text, ">= 90%, no slot short", ratio >= 0.9 and not num_short)


@dataclass
class TrainedSlot:
    """A slot of a node: how long it took, and the jobs that it trained."""

    seconds: float
    jobs: set[str]


def trained_slots(database: Path) -> dict[int, TrainedSlot]:
    """Return the slots of a market of one node by number, by its log."""
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute(
            "select slot, job, body from events where type = 'job.trained' order by seq"
        ).fetchall()
    slots: dict[int, TrainedSlot] = {}
    for number, job, body in rows:
        slot = slots.setdefault(number, TrainedSlot(json.loads(body)["seconds"], set()))
        slot.jobs.add(job)
    return slots


def slots(place: Place) -> Iterator[Figure]:
    """Have a node's worker train 8 tasks slot after slot, each begun by the clock.

    While it trains it reports rows, the same of each task. From its pace between the first and the
    last report of a slot follows how long it took for rows that were trained unreported, as those
    while checkpoints are written.
    """
    device, folder = place.device, place.folder
    is_gpu = device.type == "cuda"
    base = random_llama_folder("llama-8b", device, place.shared)
    free(device)
    fixture = Fixture(folder, load_base("tiny", cache=base_cache()))
    jobs = Case(8, 1, tokens_of(device)).jobs(fixture, 8, 1)
    settings = NodeSettings(
        str(base),
        str(base_cache()),
        device=str(device),
        dtype=dtype_of(device),
        token_budget=BUDGETS[device.type],
    )
    inbox: queue.SimpleQueue[tuple[float, NodeMessage]] = queue.SimpleQueue()
    launcher = LocalLauncher(node_workers({"one": settings}, folder / "logs"))
    executor = Executor(["one"], launcher, lambda _, one: inbox.put((time.monotonic(), one)))
    with closing(executor):
        while not isinstance(inbox.get()[1], NodeReady):
            pass
        # The first one warms up, and compiles kernels; of the last one only the start counts.
        lengths = (20.0, 60.0, 8.0) if is_gpu else (5.0, 8.0, 5.0)
        reports = [
            train_slot(executor, inbox, jobs, folder, number, length)
            for number, length in enumerate(lengths)
        ]
    ends = [(slot[0], slot[-1]) for slot in reports]
    _, (first, last), _ = ends
    pace = (last[1] - first[1]) / (last[0] - first[0])
    idle = [
        after[0] - before[0] - (after[1] - before[1]) / pace
        for (_, before), (after, _) in itertools.pairwise(ends)
    ]
    text = ", ".join(f"{seconds:.2f} s" for seconds in idle)
    yield Figure(IDLE, text, "<= 2 s", max(idle) <= 2)
    # From the end of one slot's training to that of the next.
    (_, begun), (_, ended), _ = ends
    share = (ended[1] - begun[1]) / pace / (ended[0] - begun[0])
    text = f"{share:.1%} of a slot of {lengths[1]:.0f} s"
    yield Figure(TRAINING_SHARE, text, ">= 90%", share >= 0.9)


def train_slot(
    executor: Executor,
    inbox: "queue.SimpleQueue[tuple[float, NodeMessage]]",
    jobs: Sequence[LoraJob],
    folder: Path,
    number: int,
    length: float,
) -> list[tuple[float, int]]:
    """Train a slot of so many seconds, and wait for its end; return reports: time, rows of a task.

    Raises:
        RuntimeError: if tasks or the worker failed, or nothing was trained.
    """
    until = unix_time() + length
    target = 10**6
    quotas = [
        TaskQuota(job, folder / "work" / job.id, number, target, folder / "adapters" / job.id)
        for job in jobs
    ]
    executor.train(number, "one", quotas, until)
    reports: list[tuple[float, int]] = []
    while True:
        at, message = inbox.get()
        match message:
            case Progress():
                reports.append((at, message.rows))
            case Trained() if reports and not message.refused:
                break
            case Trained() | RequestFailed() | NotCompleted() | Ended():
                raise RuntimeError(f"slot {number}: {message}")
    time.sleep(max(0.0, until - unix_time()))
    return reports


def answers(place: Place) -> Iterator[Figure]:
    """Measure answers of eight adapters by each engine."""
    device, folder = place.device, place.folder
    path = random_llama_folder("llama-8b", device, place.shared)
    base = random_llama("llama-8b", device)
    config = LoraConfig(
        task_type="CAUSAL_LM", r=16, target_modules="all-linear", init_lora_weights=False
    )
    adapted = get_peft_model(base.model, config)
    adapters = [folder / f"adapter-{number}" for number in range(8)]
    for adapter in adapters:
        adapted.save_pretrained(str(adapter))
        write_record(base.digest, adapter)
    count = 128 if device.type == "cuda" else 8
    params = SamplingParams(max_tokens=count, temperature=0.0)
    requests = [
        GenerationRequest(
            prompt=tuple(range(100 + number, 100 + number + count)),
            adapter=adapters[number % 8],
            params=params,
        )
        for number in range(16)
    ]
    own = GeneratorSettings(
        base=str(path),
        cache=folder,
        device=str(device),
        dtype=dtype_of(device),
        checks_base=False,
        max_cache_bytes=8 * 10**9 if device.type == "cuda" else 10**8,
    )
    # Each loads the base once more.
    del adapted, base
    free(device)
    engines = [("auctune's own engine", own, 800)]
    if VLLM in os.environ:
        python = Path(os.environ[VLLM]).absolute()
        vllm = VllmSettings(python=python, base_digest="random", max_rank=16)
        engines.append(("vLLM", replace(own, vllm=vllm), 2000))
    for engine, settings, goal in engines:
        speed = asyncio.run(tokens_per_second(settings, requests, folder / "log"))
        text = f"{speed:,.0f} tokens/s"
        yield Figure(answers_by(engine), text, f">= {goal:,} tokens/s", speed >= goal)


async def tokens_per_second(
    settings: GeneratorSettings, requests: Sequence[GenerationRequest], log: Path
) -> float:
    """Return the speed of answers that are generated together, once adapters are loaded."""
    generator = Generator(settings, log=log)

    async def num_tokens(request: GenerationRequest) -> int:
        pieces = [piece async for piece in generator.generate(request)]
        return sum(piece.num_tokens for piece in pieces if isinstance(piece, AnswerEnd))

    try:
        await asyncio.gather(*map(num_tokens, requests))
        started = time.monotonic()
        total = sum(await asyncio.gather(*map(num_tokens, requests)))
        return total / (time.monotonic() - started)
    except InferenceError:
        print(log.read_text()[-8000:])
        raise
    finally:
        await generator.close()


def kernels(place: Place) -> Iterator[Figure]:
    """Write the times of the Triton kernels."""
    command = [sys.executable, str(ROOT / "benchmarks" / "lora_kernels.py")]
    with (place.out / "kernels.txt").open("w") as file:
        subprocess.run(command, cwd=ROOT, stdout=file, check=True)
    yield Figure("times of the Triton kernels", "kernels.txt")


Part = Callable[[Place], Iterator[Figure]]
# With seconds that each may take. What a CPU leaves out needs a GPU.
PARTS: dict[str, tuple[Part, float]] = {
    "tests": (tests, 130.0),
    "speed": (speeds, 140.0),
    "slots": (slots, 170.0),
    "market": (market, 150.0),
    "answers": (answers, 100.0),
    "exports": (exports, 90.0),
    "kernels": (kernels, 40.0),
}
GPU_ONLY = ("tests", "kernels")
