"""What a GPU makes possible, in parts: each runs alone, in a process and a time limit of its own.

    python benchmarks/gpu.py [--device cuda|cpu] [--part PART ...] [--out FOLDER] [--table]

| part | what |
| --- | --- |
| tests | the tests marked `gpu`: the trainer's, its kernels', and a worker of each kind; the market's kernels are compiled meanwhile |
| speed | Llama's 8B shape beside PEFT, TRL and the frozen base alone (`benchmarks/training.py`), the 1B shape, and torch's profiler of a step of 8 adapters |
| slots | a node's worker trains 8 tasks of the 8B shape, a slot of 60 s between two short ones |
| market | `auctune run` on the 1B shape: a node that is sold whole to eight bids of ranks 4 to 64 |
| answers | the 8B shape: 16 answers of 8 adapters at once, by auctune's own engine; by vLLM, if AUCTUNE_VLLM names its interpreter |
| exports | the 8B shape: adapters pass their check, planted faults do not |
| kernels | `benchmarks/lora_kernels.py` |

Nothing is downloaded: bases have random weights, and the tokenizer is the tiny base's. All parts
together end within 8 minutes; what has no time left is not begun. Each figure is appended to
FOLDER/figures.jsonl, build/gpu by default, as soon as it is there, and after each part the table in
docs/reference/figures.md is written anew from the newest figure of each row, or printed where the
page cannot be written to; `--table` does no more than that. With `--device cpu` shapes are tiny, the
tests are left out, and the table is printed: a check of this script.
"""  # noqa: E501

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from rich.console import Console

from auctune.train.host import device_name
from gpu_parts import (
    EXPORTS,
    FAULTS,
    FIRST_ADAPTER,
    GPU_ONLY,
    IDLE,
    MARKET,
    PARTS,
    ROOT,
    SOLD,
    TESTS,
    TRAINING_SHARE,
    Place,
    answers_by,
    tokens_of,
)
from training import BATCH, FROZEN, FUSED, PEFT, TRL, Case, Figure

PAGE = ROOT / "docs" / "reference" / "figures.md"
# A part that would go beyond this is not begun.
LIMIT_SECONDS = 470.0
# Of each part on a CPU.
CPU_LIMIT_SECONDS = 900.0
FIGURE = "figure: "


@dataclass(frozen=True)
class Row:
    """A row of the table that has a goal, or was measured before.

    Attributes:
        name: of its figure.
        goal: as text.
        before: what was measured on one H100 on 2026-11-26.
        commit: of that.
    """

    name: str
    goal: str
    before: str = "not measured"
    commit: str = "929cd648"


def rows_of_table(tokens: int) -> tuple[Row, ...]:
    """Return the rows of the table in their order, of speeds with rows of so many tokens."""
    eight, one = f"llama-8b, {Case(8, 1, tokens)}", f"llama-8b, {Case(1, 1, tokens)}"
    return (
        Row(f"{eight}: {FUSED}", "", "420 to 523 ms, 7,833 to 9,750 tokens/s, MFU 24% to 30%"),
        Row(f"{eight}: {FROZEN}", "", "270 ms, 15,165 tokens/s, MFU 46% with the head counted"),
        Row(f"{eight}: time over that of {FROZEN}", "<= 1.2x", "1.55x to 1.9x"),
        Row(f"{eight}: speed over that of {PEFT}", ">= 4.5x", "3.0x to 3.6x"),
        Row(f"{eight}: speed over that of {BATCH}", ">= 1.5x", "0.95x to 1.2x"),
        Row(f"{eight}: speed over that of {TRL}", ">= 1.3x"),
        Row(f"{one}: speed over that of {PEFT}", ">= 1.2x", "0.77x"),
        Row(f"llama-1b, {Case(8, 1, tokens)}: {FUSED}", "<= 80 ms", "335 ms, MFU 6%"),
        Row(IDLE, "<= 2 s", "about 40 s"),
        Row(TRAINING_SHARE, ">= 90%", "not measured (about a third)"),
        Row(FIRST_ADAPTER, "<= 60 s", "> 190 s"),
        Row(SOLD, ">= 90%, no slot short", "56%"),
        Row(
            MARKET,
            "all",
            "7 of 7 bids after one line was mended; at 35da4f13 ended by a limit of 230 s",
        ),
        Row(answers_by("auctune's own engine"), ">= 800 tokens/s", "226 tokens/s"),
        Row(answers_by("vLLM"), ">= 2,000 tokens/s"),
        Row(TESTS, "all pass", "23 passed in 116 s", "35da4f13"),
        Row(EXPORTS, "all", "16 of 16; largest difference 26% of what is allowed", "35da4f13"),
        *(
            Row(f"exports with {fault}", "all refused", before, "35da4f13")
            for fault, before in FAULTS.items()
        ),
    )


def commit() -> str:
    """Return the commit of this tree, if it is a clone and git is installed."""
    command = ["git", "rev-parse", "--short=8", "HEAD"]
    if shutil.which("git") is None:
        return "unknown commit"
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return found.stdout.strip() or "unknown commit"


class Results:
    """Figures of this run and of earlier ones, in a file to which each is appended at once.

    Args:
        out: its folder.
        device: name of the device of this run.
    """

    def __init__(self, out: Path, device: str) -> None:
        self._path = out / "figures.jsonl"
        self._by = f"{commit()}, {time.strftime('%Y-%m-%d')}, {device}, torch {torch.__version__}"

    def add(self, figure: Figure) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps({"figure": asdict(figure), "by": self._by}) + "\n")

    def newest(self) -> dict[str, tuple[Figure, str]]:
        """Return the newest figure of each name, and by whom it was measured."""
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        records = map(json.loads, lines)
        return {one["figure"]["name"]: (Figure(**one["figure"]), one["by"]) for one in records}


def run_part(name: str, options: Sequence[str], limit: float, results: Results) -> None:
    """Run one part in a process of its own, and keep its figures; its end is one, too."""
    command = [sys.executable, __file__, "--part", name, *options]
    started = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0) as process:
        assert process.stdout is not None
        timer = threading.Timer(limit, os.killpg, (process.pid, signal.SIGKILL))
        timer.start()
        try:
            for line in process.stdout:
                at = f"{time.monotonic() - started:6.1f} s"
                if line.startswith(FIGURE):
                    figure = Figure(**json.loads(line.removeprefix(FIGURE)))
                    results.add(figure)
                    line = f"{figure.name}: {figure.value}"
                print(f"{at} {line.rstrip()}", flush=True)
            code = process.wait()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        finally:
            timer.cancel()
    how = f"ended after {limit:.0f} s" if code < 0 else f"exit code {code}"
    results.add(Figure(f"part {name}", how if code else "", "", code == 0))


def table(found: Mapping[str, tuple[Figure, str]], tokens: int) -> str:
    """Return figures as a table in Markdown; `tokens` as of `rows_of_table`."""
    lines = [
        "| what | goal | H100, 2026-11-26 | measured | commit, date, device |",
        "| --- | --- | --- | --- | --- |",
    ]
    rows = {row.name: row for row in rows_of_table(tokens)}
    for row in rows.values():
        measured, by = f"not measured since {row.commit}", ""
        if row.name in found:
            figure, by = found[row.name]
            measured = _shown(figure)
        lines.append(f"| {row.name} | {row.goal} | {row.before} | {measured} | {by} |")
    for name, (figure, by) in found.items():
        if name not in rows and figure.value:
            lines.append(f"| {name} | {figure.goal} | | {_shown(figure)} | {by} |")
    return "\n".join(lines) + "\n"


def _shown(figure: Figure) -> str:
    failure = " **missed**" if figure.goal else " **failed**"
    return figure.value + ("" if figure.reached else failure)


def write(text: str, page: Path) -> bool:
    """Put a table into its place on a page; return False if the page cannot be written to."""
    before = page.read_text()
    after, count = re.subn(
        r"(<!-- gpu -->\n).*?(<!-- end -->)", lambda m: m[1] + text + m[2], before, flags=re.DOTALL
    )
    assert count == 1, f"{page} has no place for the table"
    try:
        page.write_text(after)
    except OSError:
        return False
    return True


def run_as_part(name: str, place: Place) -> None:
    """Run a part in this process, and write its figures as lines."""
    warnings.filterwarnings("ignore", category=FutureWarning)
    torch.set_num_threads(1)
    place.folder.mkdir()
    part, _ = PARTS[name]
    try:
        for figure in part(place):
            print(FIGURE + json.dumps(asdict(figure)), flush=True)
    except Exception:
        traceback.print_exc(file=sys.stdout)
        sys.exit(1)


def main() -> None:
    parser = argparse.ArgumentParser(description="All that a GPU makes possible.")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--part", choices=PARTS, action="append", help="only these")
    parser.add_argument("--out", type=Path, help="folder of all results; build/gpu")
    parser.add_argument("--table", action="store_true", help="only write the table")
    parser.add_argument("--shared", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    is_gpu = arguments.device == "cuda"
    out = arguments.out or ROOT / "build" / ("gpu" if is_gpu else "gpu-on-cpu")
    out.mkdir(parents=True, exist_ok=True)
    device = torch.device("cuda", 0) if is_gpu else torch.device("cpu")
    if arguments.table:
        write(table(Results(out, "").newest(), 512), PAGE)
        return
    if is_gpu and not torch.cuda.is_available():
        sys.exit("no CUDA device on this machine: nothing was run")
    if arguments.shared is not None:
        name = arguments.part[0]
        run_as_part(name, Place(device, arguments.shared / name, arguments.shared, out))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    results = Results(out, device_name(device))
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as shared:
        for name in arguments.part or [one for one in PARTS if is_gpu or one not in GPU_ONLY]:
            allowed = PARTS[name][1]
            limit = min(allowed, LIMIT_SECONDS - (time.monotonic() - started))
            if not is_gpu:
                limit = allowed = CPU_LIMIT_SECONDS
            print(f"{name} ...", flush=True)
            if limit < allowed / 2:
                results.add(Figure(f"part {name}", "not begun: no time", "", False))
            else:
                options = ["--device", arguments.device, "--shared", shared, "--out", str(out)]
                run_part(name, options, limit, results)
            text = table(results.newest(), tokens_of(device))
            is_written = is_gpu and write(text, PAGE)
    print(f"{time.monotonic() - started:.0f} s; {out} has all results")
    if not is_written:
        Console().print(text, markup=False, soft_wrap=True)


if __name__ == "__main__":
    main()
