"""What a GPU makes possible: its tests, the trainer's table, and profiles, in under 8 minutes.

    python benchmarks/gpu.py [--device cuda|cpu] [--print]

Nothing is downloaded: bases have random weights, and the tokenizer is the tiny base's. The table is
written to its place in docs/reference/figures.md, or printed where that cannot be written to. With
`--device cpu` shapes are tiny and tests are left out: a check of this script.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import torch
from rich.console import Console
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedModel

from auctune.train.base import Base, compute_architecture, load_base, share_weights
from auctune.train.host import device_name
from auctune.train.profile import Effort, measure_profile
from training import Figure, Fixture, measure, speed

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "figures.md"
RANKS = (4, 8, 16, 16, 32, 32, 64, 64)
# After that nothing more is begun.
LIMIT_SECONDS = 360.0
PROFILE_SECONDS = 60.0
TEST_SECONDS = 150.0


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


def shapes(device: torch.device) -> dict[str, Callable[[], PreTrainedModel]]:
    """Return what makes each model, by name; on a CPU they are tiny."""
    if device.type == "cpu":
        small = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
        return {
            "GPT-2 small": lambda: GPT2LMHeadModel(GPT2Config(n_embd=64, n_layer=2, n_head=4)),
            "Llama 7B": lambda: LlamaForCausalLM(LlamaConfig(intermediate_size=96, **small)),
        }
    return {
        "GPT-2 small": lambda: GPT2LMHeadModel(GPT2Config()),
        # The defaults are the shape of the first Llama of 7B.
        "Llama 7B": lambda: LlamaForCausalLM(LlamaConfig()),
    }


def make_model(make: Callable[[], PreTrainedModel], device: torch.device) -> PreTrainedModel:
    """Return a model made in place on a device, in bfloat16."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with device:
            return make()
    finally:
        torch.set_default_dtype(before)


def profiled(base: Base, seconds: float) -> Iterator[Figure]:
    """Yield what `auctune profile` measures of a base."""
    profile = measure_profile(base, effort=Effort(seconds=seconds))
    passes = f"{1e3 * profile.step_seconds:.1f} ms + {1e6 * profile.token_seconds:.1f} us a token"
    values = {
        "speed, less margin": f"{profile.tokens_per_second():,.0f} tokens/s",
        "a pass": passes,
        "micro-batch": f"{profile.micro_batch_tokens} tokens",
        "margin": f"{profile.margin:.0%}",
        "not measured": "; ".join(profile.not_measured) or "nothing",
    }
    for what, value in values.items():
        yield Figure(f"profile of {base.name}: {what}", value, "", True)


def tests() -> Figure:
    """Run the tests that need a GPU."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        "gpu",
        "-p",
        "no:cacheprovider",
        "tests/unit/train",
    ]
    try:
        ended = subprocess.run(
            command, cwd=PAGE.parents[2], capture_output=True, text=True, timeout=TEST_SECONDS
        )
        last = (ended.stdout.strip().splitlines() or ["no output"])[-1]
        if ended.returncode:
            print(ended.stdout[-4000:])
        is_right = ended.returncode == 0
    except subprocess.TimeoutExpired:
        last, is_right = f"not done within {TEST_SECONDS:.0f} s", False
    return Figure("tests marked `gpu`", last, "all pass", is_right)


def figures(device: torch.device, report: Callable[[str], None]) -> Iterator[Figure]:
    """Yield all figures, until the time is over."""
    end = time.monotonic() + LIMIT_SECONDS
    is_gpu = device.type == "cuda"
    if is_gpu:
        report("tests")
        yield tests()
        report("the trainer's table")
        yield from measure(device, repeats=3)
    seconds = PROFILE_SECONDS if is_gpu else 5.0
    with tempfile.TemporaryDirectory() as folder:
        tokens = load_base("tiny", cache=Path(folder))
        for name, make in shapes(device).items():
            if time.monotonic() > end:
                yield Figure(f"{name}, bfloat16", "left out: no time", "", True)
                continue
            report(f"{name}: its speed, then its profile")
            base = random_base(name, make_model(make, device), tokens, device)
            fixture = Fixture(Path(folder), base)
            if name != "GPT-2 small":
                for ranks, goal in ((RANKS, 1.3), ((16,), 0.95)):
                    row_tokens = 512 if is_gpu else 16
                    for figure in speed(fixture, 1, row_tokens, goal, 3, ranks):
                        yield replace(figure, name=f"{name}: {figure.name}")
            yield from profiled(base, seconds)
            del base, fixture
            if is_gpu:
                torch.cuda.empty_cache()


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
    parser.add_argument("--print", action="store_true", help="print the table, and write nothing")
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        sys.exit("no CUDA device on this machine: nothing was run")
    warnings.filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)
    device = torch.device("cuda", 0) if arguments.device == "cuda" else torch.device("cpu")
    started = time.monotonic()
    found = []
    for figure in figures(device, lambda what: print(f"{what} ...", flush=True)):
        found.append(figure)
        print(f"  {figure.name}: {figure.value}", flush=True)
    seconds = time.monotonic() - started
    title = f"{device_name(device)}, torch {torch.__version__}, {time.strftime('%Y-%m-%d')}; "
    text = table(found, title + f"`make gpu` took {seconds:.0f} s.")
    if arguments.print or device.type == "cpu" or not write(text, PAGE):
        Console().print(text, markup=False, soft_wrap=True)


if __name__ == "__main__":
    main()
