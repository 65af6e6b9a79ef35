"""Compiles what tests call, once, into the cache that they share: `make test` runs it first.

Processes that need the same kernel at the same time would each compile it. What is missing here
is compiled by the first test that calls it. A file in the cache says that nothing is left to do.
"""

import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from support.kernel_cache import share_kernels

share_kernels()

import numba  # noqa: E402  (kernels look for their cache as they are imported)
import numpy as np  # noqa: E402
from numba.core.registry import cpu_target  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from auctune.cli.app import app  # noqa: E402
from auctune.numerics.jit import kernel_folder, source_digest  # noqa: E402
from support.endless import ENDLESS, days_of_six_slots  # noqa: E402
from support.markets import random_market  # noqa: E402
from support.mechanisms import MECHANISMS  # noqa: E402
from support.playing import offer_all  # noqa: E402
from support.windows import in_window  # noqa: E402

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SMALL_DAY = ("simulate", EXAMPLES / "instances" / "small-day.json")
RENTAL = ("--market", EXAMPLES / "spot" / "market.csv", "--job", EXAMPLES / "spot" / "job.toml")
COMMANDS: tuple[Sequence[str | Path], ...] = (
    (*SMALL_DAY, "--compare", "pdftsp,titan,eft,ntm", "--bound", "lp", "--report", "report.json"),
    ("spot", "compare", *RENTAL, "--jobs", "4"),
    ("spot", "select", *RENTAL, "--jobs", "4"),
    ("spot", "advise", *RENTAL, "--start", "297", "--now", "304"),
    ("edge", "compare", EXAMPLES / "edge" / "instance.json"),
    ("timeshare", "compare", "--threads", "10", "--bundles", "2"),
)


def _auctions() -> None:
    for make in MECHANISMS.values():
        market = random_market(np.random.default_rng(7), num_tasks=40)
        mechanism = make(market.cluster)
        task = market.tasks[0]
        mechanism.quote(task, task.arrival)
        mechanism.preview(task, task.arrival)
        offer_all(mechanism, market.tasks)
    for make_endless in ENDLESS.values():
        market = days_of_six_slots(0, num_tasks=120)
        mechanism = make_endless(market, 0)
        offer_all(mechanism, [in_window(task) for task in market.tasks])


def _commands() -> None:
    for command in COMMANDS:
        done = CliRunner().invoke(app, list(map(str, command)))
        assert done.exit_code == 0, f"{command}: {done.output}"


def _stamp() -> Path:
    """The file of these sources here: numba caches by their folder and by the processor."""
    processor = cpu_target.target_context.codegen().magic_tuple()
    key = (source_digest(""), numba.__version__, processor, str(EXAMPLES))
    return kernel_folder() / f"tests-{hashlib.blake2b(repr(key).encode()).hexdigest()[:24]}"


if __name__ == "__main__" and not (stamp := _stamp()).exists():
    print("compiling kernels for the tests: once, a minute or two", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        _auctions()
        _commands()
    stamp.touch()
