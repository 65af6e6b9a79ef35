"""What a GPU makes possible, in parts: each runs alone, in a process and a time limit of its own.

    python benchmarks/gpu.py [--device cuda|cpu] [--part PART ...] [--print]

| part | what |
| --- | --- |
| tests | the tests marked `gpu`: the trainer's, and a worker of each kind |
| exports | a Llama of 8B shape in bfloat16: its adapters pass their check, planted faults do not |
| market | `auctune run` on a base of 1B shape: measured, sold, trained, exported |
| speed | the 8B shape: eight adapters of ranks 4 to 64, and one, against PEFT; its profile |
| trainer | GPT-2 small: the table of `benchmarks/training.py`; its profile |
| answers | the 8B shape: 16 answers of 8 adapters at once, by auctune's own engine and by vLLM |

The last part needs vLLM: AUCTUNE_VLLM names its interpreter, or the part is left out.

Nothing is downloaded: bases have random weights, and the tokenizer is the tiny base's. All parts
take less than 8 minutes on an H100. The table is written to its place in docs/reference/figures.md,
or printed where that cannot be written to. With `--device cpu` shapes are tiny and the tests are
left out: a check of this script.
"""

import argparse
import asyncio
import copy
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from rich.console import Console
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedModel

from auctune.domain.generation import AnswerEnd, GenerationRequest, SamplingParams
from auctune.engine.generation import (
    Generator,
    GeneratorSettings,
    InferenceError,
    VllmSettings,
)
from auctune.train.adapter_files import write_record
from auctune.train.base import Base, compute_architecture, load_base, share_weights
from auctune.train.export import ExportError, export_adapter
from auctune.train.host import device_name
from auctune.train.profile import Effort, measure_profile
from auctune.train.trainer import MultiLoraTrainer
from training import Figure, Fixture, measure, speed

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "figures.md"
RANKS = (4, 8, 16, 16, 32, 32, 64, 64)
# A part that would go beyond this is not begun.
LIMIT_SECONDS = 470.0
PROFILE_SECONDS = 40.0
FIGURE = "figure: "
VLLM = "AUCTUNE_VLLM"


def random_base(name: str, model: PreTrainedModel, tokens: Base, device: torch.device) -> Base:
    """Return a base of a model with random weights, which is on a device already."""
    model.requires_grad_(False)
    return replace(
        tokens,
        name=name,
        source=name,
        model=model,
        digest="random",
        architecture=compute_architecture(model),
        device=device,
        dtype=model.dtype,
        _untouched=share_weights(model),
    )


def make_model(make: Callable[[], PreTrainedModel], device: torch.device) -> PreTrainedModel:
    """Return a model made in place on a device, in bfloat16."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with device:
            return make()
    finally:
        torch.set_default_dtype(before)


def llama(device: torch.device, *, layers: int, hidden: int, intermediate: int) -> LlamaConfig:
    """Return a shape with Llama 3's heads and vocabulary; on a CPU a tiny one."""
    if device.type == "cpu":
        layers, hidden, intermediate = 2, 128, 96
    return LlamaConfig(
        vocab_size=1100 if device.type == "cpu" else 128_256,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=4 if device.type == "cpu" else 32,
        num_key_value_heads=2 if device.type == "cpu" else 8,
        max_position_embeddings=8192,
        tie_word_embeddings=hidden < 4096,
    )


def llama_8b(device: torch.device, folder: Path) -> Base:
    """Return a base of the shape of Llama 3's 8B."""
    config = llama(device, layers=32, hidden=4096, intermediate=14_336)
    model = make_model(lambda: LlamaForCausalLM(config), device)
    return random_base("Llama 8B", model, load_base("tiny", cache=folder.parent), device)


def profiled(base: Base, seconds: float) -> Iterator[Figure]:
    """Yield what `auctune profile` measures of a base."""
    profile = measure_profile(base, effort=Effort(seconds=seconds))
    passes = f"{1e3 * profile.step_seconds:.1f} ms + {1e6 * profile.token_seconds:.1f} us a token"
    values = {
        "speed, less margin": f"{profile.tokens_per_second():,.0f} tokens/s",
        "a pass": f"{passes} + {1e3 * profile.adapter_seconds:.1f} ms an adapter",
        "micro-batch": f"{profile.micro_batch_tokens} tokens",
        "margin": f"{profile.margin:.0%}",
        "not measured": "; ".join(profile.not_measured) or "nothing",
    }
    for what, value in values.items():
        yield Figure(f"profile of {base.name}: {what}", value, "", True)


def tests(_: torch.device, __: Path) -> Iterator[Figure]:
    """Run the tests that need a GPU."""
    files = (
        "tests/unit/train/test_gpu.py",
        "tests/unit/train/test_fused_modules.py",
        "tests/unit/train/test_triton_kernels.py",
        "tests/integration/test_workers_on_devices.py",
    )
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", *files]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if ended.returncode:
        print(ended.stdout[-8000:], ended.stderr[-2000:])
    last = (ended.stdout.strip().splitlines() or ["no output"])[-1]
    yield Figure("tests marked `gpu`", last.strip("= "), "all pass", ended.returncode == 0)


def exports(device: torch.device, folder: Path) -> Iterator[Figure]:
    """Export trained adapters, and the same with planted faults."""
    base = llama_8b(device, folder)
    fixture = Fixture(folder, base)
    trainer = MultiLoraTrainer(base, token_budget=4096)
    jobs = [fixture.job(1, 512 if device.type == "cuda" else 16, rank=rank) for rank in RANKS]
    for job in jobs:
        trainer.load(replace(job, learning_rate=1e-3), folder / job.id)
    # Each fault takes seconds a job.
    tried = (jobs[0], jobs[-1])
    shares: list[float] = []
    refused: dict[str, int] = {}
    for steps in (1, 20):
        trainer.train({job.id: steps for job in jobs}, lambda _: None)
        for job in jobs:
            share, config, weights, again = exported(base, trainer, job.id, folder / "adapter")
            shares.append(share)
            faults = faulty(config, weights) if steps > 1 and job in tried else {}
            for fault, arguments in faults.items():
                refused[fault] = refused.get(fault, 0) + (again(*arguments) is None)
    yield Figure(
        "exports of an 8B base in bfloat16: adapters that pass",
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


BIDS = (
    ("weather", 4.0, 0, 6, 8),
    ("support", 6.5, 0, 7, 16),
    ("mood", 3.0, 0, 7, 4),
    ("sums", 5.0, 0, 7, 64),
    ("travel", 2.5, 1, 7, 8),
    ("garden", 4.5, 1, 7, 32),
    ("recipes", 3.0, 2, 7, 16),
)


def market(device: torch.device, folder: Path) -> Iterator[Figure]:
    """Run a market of seven bids on one node, from measuring to adapters."""
    is_gpu = device.type == "cuda"
    model = make_model(
        lambda: LlamaForCausalLM(llama(device, layers=16, hidden=2048, intermediate=8192)), device
    )
    model.to("cpu").save_pretrained(folder / "base-1b")
    load_base("tiny", cache=folder.parent).tokenizer.save_pretrained(str(folder / "base-1b"))
    del model
    if is_gpu:
        torch.cuda.empty_cache()
    data = ROOT / "examples" / "first-market" / "data"
    lines = [
        'title = "GPU"',
        f'base = "{folder / "base-1b"}"',
        f'dtype = "{"bfloat16" if is_gpu else "float32"}"',
        "slots = 8",
        "slot_seconds = 8",
        f"measure_seconds = {30 if is_gpu else 10}",
        "[auction]",
        'pricing = "exponential"',
        "compute_low = 0.0000005",
        "compute_high = 0.000004",
        "memory_low = 0.0001",
        "memory_high = 0.01",
        "[node_types.one]",
        "measure = true",
        f'device = "{device}"',
        "energy_cost = 0.01",
        "[[nodes]]",
        'id = "one"',
        'type = "one"',
    ]
    for name, bid, arrival, deadline, rank in BIDS:
        lines += [
            "[[bids]]",
            f'id = "{name}"',
            f'data = "{data / f"{name}.jsonl"}"',
            f"bid = {bid}",
            f"arrival = {arrival}",
            f"deadline = {deadline}",
            "epochs = 4",
            f"rank = {rank}",
            "learning_rate = 0.001",
        ]
    (folder / "market.toml").write_text("\n".join(lines))
    started = time.monotonic()
    command = [sys.executable, "-m", "auctune", "run", str(folder / "market.toml")]
    code = subprocess.run([*command, "--out", str(folder / "out")], cwd=ROOT).returncode
    seconds = time.monotonic() - started
    adapters = len(list((folder / "out").glob("tasks/*/adapter/adapter_model.safetensors")))
    found = f"{adapters} of {len(BIDS)} bids, exit code {code}, in {seconds:.0f} s"
    name = "`auctune run`, 1B shape: trained, checked adapters"
    yield Figure(name, found, "all", adapters == len(BIDS) and code == 0)


def speeds(device: torch.device, folder: Path) -> Iterator[Figure]:
    """Compare the trainer with PEFT on the 8B shape, and measure its profile."""
    base = llama_8b(device, folder)
    is_gpu = device.type == "cuda"
    for ranks, goal in ((RANKS, 4.5), ((16,), 1.2)):
        for figure in speed(Fixture(folder, base), 1, 512 if is_gpu else 16, goal, 3, ranks):
            yield replace(figure, name=f"{base.name}: {figure.name}")
    yield from profiled(base, PROFILE_SECONDS if is_gpu else 5.0)


def trainer(device: torch.device, folder: Path) -> Iterator[Figure]:
    """Measure the trainer's table on GPT-2 small, and its profile."""
    is_gpu = device.type == "cuda"
    if is_gpu:
        yield from measure(device, repeats=3)
    small = {} if is_gpu else {"n_embd": 64, "n_layer": 2, "n_head": 4}
    model = make_model(lambda: GPT2LMHeadModel(GPT2Config(**small)), device)
    base = random_base("GPT-2 small", model, load_base("tiny", cache=folder.parent), device)
    yield from profiled(base, PROFILE_SECONDS if is_gpu else 5.0)


def answers(device: torch.device, folder: Path) -> Iterator[Figure]:
    """Measure answers of eight adapters by each engine."""
    base = llama_8b(device, folder)
    base.model.save_pretrained(folder / "base")
    base.tokenizer.save_pretrained(str(folder / "base"))
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
        base=str(folder / "base"),
        cache=folder,
        device=str(device),
        dtype="bfloat16",
        checks_base=False,
        max_cache_bytes=8 * 10**9 if device.type == "cuda" else 10**8,
    )
    # Each loads the base once more.
    name = base.name
    del adapted, base
    if device.type == "cuda":
        torch.cuda.empty_cache()
    vllm = VllmSettings(python=Path(os.environ[VLLM]).absolute(), base_digest="random", max_rank=16)
    for engine, settings, goal in (
        ("auctune's own engine", own, 800),
        ("vLLM", replace(own, vllm=vllm), 2000),
    ):
        speed = asyncio.run(tokens_per_second(settings, requests, folder / "log"))
        what = f"{name}: 16 answers of 8 adapters at once, {engine}"
        yield Figure(what, f"{speed:,.0f} tokens/s", f">= {goal:,}", speed >= goal)


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


Part = Callable[[torch.device, Path], Iterator[Figure]]
# With seconds that each may take.
PARTS: dict[str, tuple[Part, float]] = {
    "tests": (tests, 150.0),
    "exports": (exports, 90.0),
    "market": (market, 230.0),
    "speed": (speeds, 110.0),
    "trainer": (trainer, 110.0),
    "answers": (answers, 240.0),
}


def run_part(name: str, device: str, cache: Path, limit: float) -> list[Figure]:
    """Run one part in a process of its own; a part that fails is a figure too."""
    command = [sys.executable, __file__, "--device", device, "--part", name, "--cache", str(cache)]
    found: list[Figure] = []
    why, started = "", time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0) as process:
        assert process.stdout is not None
        timer = threading.Timer(limit, os.killpg, (process.pid, signal.SIGKILL))
        timer.start()
        for line in process.stdout:
            if line.startswith(FIGURE):
                found.append(Figure(**json.loads(line.removeprefix(FIGURE))))
                print(f"  {found[-1].name}: {found[-1].value}", flush=True)
            else:
                print(f"{time.monotonic() - started:6.1f} s {line.rstrip()}", flush=True)
        timer.cancel()
        if code := process.wait():
            why = f"ended after {limit:.0f} s" if code < 0 else f"exit code {code}"
    return [*found, Figure(f"part {name}", why, "", False)] if why else found


def table(found: list[Figure], title: str) -> str:
    """Return figures as a table in Markdown, under a line of where and when."""
    rows = [
        f"| {one.name} | {one.goal} | {one.value}{'' if one.reached else ' **missed**'} |"
        for one in found
    ]
    return "\n".join([title, "", "| what | goal | measured |", "| --- | --- | --- |", *rows]) + "\n"


def write(text: str, page: Path) -> bool:
    """Put a table into its place on a page; return False if the page cannot be written to."""
    before = page.read_text()
    after = re.sub(
        r"(<!-- gpu -->\n).*?(<!-- end -->)", lambda m: m[1] + text + m[2], before, flags=re.DOTALL
    )
    assert after != before, f"{page} has no place for the table"
    try:
        page.write_text(after)
    except OSError:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description="All that a GPU makes possible.")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--part", choices=PARTS, action="append", help="only these")
    parser.add_argument("--print", action="store_true", help="print the table, and write nothing")
    parser.add_argument("--cache", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        sys.exit("no CUDA device on this machine: nothing was run")
    warnings.filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)
    device = torch.device("cuda", 0) if arguments.device == "cuda" else torch.device("cpu")
    if arguments.cache is not None:
        part, _ = PARTS[arguments.part[0]]
        folder = arguments.cache / arguments.part[0]
        folder.mkdir()
        try:
            for figure in part(device, folder):
                print(FIGURE + json.dumps(asdict(figure)), flush=True)
        except Exception:
            traceback.print_exc(file=sys.stdout)
            sys.exit(1)
        return
    left_out = set() if device.type == "cuda" else {"tests"}
    left_out |= set() if VLLM in os.environ else {"answers"}
    names = arguments.part or [name for name in PARTS if name not in left_out]
    started = time.monotonic()
    found: list[Figure] = []
    with tempfile.TemporaryDirectory() as cache:
        for name in names:
            limit = min(PARTS[name][1], LIMIT_SECONDS - (time.monotonic() - started))
            print(f"{name} ...", flush=True)
            if limit < PARTS[name][1] / 2:
                found.append(Figure(f"part {name}", "not begun: no time", "", False))
                continue
            found += run_part(name, arguments.device, Path(cache), limit)
    seconds = time.monotonic() - started
    title = f"{device_name(device)}, torch {torch.__version__}, {time.strftime('%Y-%m-%d')}; "
    text = table(found, title + f"`make gpu` took {seconds:.0f} s.")
    if arguments.print or device.type == "cpu" or not write(text, PAGE):
        Console().print(text, markup=False, soft_wrap=True)


if __name__ == "__main__":
    main()
