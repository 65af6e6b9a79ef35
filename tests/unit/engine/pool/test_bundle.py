"""Bundles from files: what is right becomes a run, what is wrong one line."""

from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.engine.pool.bundle import Bundle, read_bundle
from auctune.sim.timeshare.bundle_file import read_bundle_file
from auctune.timeshare.allocation.rule import MOORE_HODGSON
from auctune.timeshare.balancing import Exploration
from auctune.timeshare.estimators.wls import Wls
from auctune.timeshare.planner import Planner
from auctune.train.preemptible import PreemptibleJob
from support.pool_threads import make_line

ROOT = Path(__file__).parents[4]
FILES = [
    ROOT / "examples" / "timeshare" / "adapters.toml",
    ROOT / "experiments" / "timeshare" / "digits.toml",
]

THREAD = """
[[thread]]
name = "a"
deadline = 9
threshold = 0.5
kind = "lara_tasks:cnn"
batches_per_unit = 3.0
"""


def thread_of(kind: str) -> str:
    """The thread with another kind."""
    return THREAD.replace("lara_tasks:cnn", kind)


def slope_line(seed: int, device: str, slope: float) -> PreemptibleJob:
    """A thread of a user's own."""
    return make_line(seed, slope)


def no_thread(seed: int, device: str) -> object:
    """What a user may take for a thread."""
    return "a thread"


def write(folder: Path, text: str) -> Path:
    path = folder / "bundle.toml"
    path.write_text(text)
    return path


def read(path: Path, beside: Path) -> Bundle:
    return read_bundle(read_bundle_file(path), path, beside, beside, 30.0)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_examples_are_bundles(path: Path, tmp_path: Path) -> None:
    bundle = read(path, path.parent)
    assert len(bundle.jobs) >= 2


def test_a_file_says_all_of_a_run(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        '[pool]\nmemory_gb = 0.5\ncpu_threads = 2\nallocator = "lara"\n'
        "[lara]\ngamma = 0.8\nexploration = 40\n" + THREAD,
    )
    bundle = read(path, tmp_path)
    params = bundle.params
    assert params.allocator == Planner(Wls(gamma=0.8), Exploration(batches=40), MOORE_HODGSON)
    assert (params.memory_bytes, params.cpu_threads) == (500_000_000, 2)
    assert params.quantum_seconds is None
    job = bundle.jobs[0]
    assert (job.thread.id, job.thread.deadline, job.rate) == ("a", 9, 3.0)
    assert job.make().step(1) > 0


def test_a_thread_of_ones_own_is_a_function_that_can_be_imported(tmp_path: Path) -> None:
    kind = f"{__name__}:slope_line"
    text = thread_of(kind) + "settings = { slope = 2.0 }\n"
    path = write(tmp_path, text)
    bundle = read(path, tmp_path)
    assert bundle.jobs[0].make().step(3) == make_line(0, 2.0).step(3)


def test_a_function_that_returns_no_thread_is_named_when_it_is_called(tmp_path: Path) -> None:
    path = write(tmp_path, thread_of(f"{__name__}:no_thread"))
    bundle = read(path, tmp_path)
    with pytest.raises(InputError, match=":no_thread returned str without 'batches'"):
        bundle.jobs[0].make()


def test_an_adapter_is_a_thread_with_the_settings_of_a_job(tmp_path: Path) -> None:
    settings = 'settings = { data = "rows.jsonl", rank = 4, target_modules = ["c_attn"] }\n'
    path = write(tmp_path, thread_of("lora") + settings)
    assert read(path, tmp_path).jobs


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[pool]\n", r"bundle\.toml: thread: is missing"),
        (THREAD + THREAD, r"thread\[1\]\.name: 'a' is there twice"),
        (THREAD.replace("9", "0"), r"thread\[0\]\.deadline: 0"),
        (THREAD.replace("deadline = 9", "deadline = 9\nstart = 9"), r"thread\[0\]\.deadline: 9; "),
        (THREAD.replace("0.5", "-0.5"), r"thread\[0\]\.threshold: -0\.5"),
        (THREAD.replace('"a"', '"../a"'), r"thread\[0\]\.name: '\.\./a'"),
        (
            THREAD.replace("batches_per_unit = 3.0", ""),
            r"thread\[0\]\.batches_per_unit: is missing",
        ),
        (THREAD.replace("kind", "knid"), r"thread\[0\]\."),
        (
            thread_of("gpt"),
            r"thread\[0\]\.kind: 'gpt'; expected lora or MODULE",
        ),
        (
            thread_of("no.such:thing"),
            r"thread\[0\]\.kind: 'no\.such:thing' \(No module",
        ),
        (
            thread_of("lora") + 'settings = { data = "a", size = 3 }\n',
            r"thread\[0\]\.settings\.size: is an unknown key",
        ),
        (thread_of("lora"), r"thread\[0\]\.settings\.data: is missing"),
        (
            thread_of("lora") + 'settings = { data = "a", rank = 0 }\n',
            r"thread\[0\]\.settings\.rank: 0",
        ),
        ('[pool]\ndevice = "abacus"\n' + THREAD, "abacus"),
        (
            thread_of("lora") + "settings = { data = 5 }\n",
            r"thread\[0\]\.settings\.data: 5; expected a valid string",
        ),
        (
            thread_of("lora") + 'settings = { data = "a", base = 5 }\n',
            r"settings\.base: 5; expected a valid string",
        ),
        (
            thread_of("lora") + 'settings = { data = "a", target_modules = "q" }\n',
            r"settings\.target_modules: 'q'; expected a valid tuple",
        ),
        (
            thread_of(":thing"),
            r"kind: ':thing' cannot be imported \(ValueError",
        ),
        (
            thread_of(f"{__name__}:slope_line") + "settings = { slope = 2020-01-01 }\n",
            r"settings\.slope: 2020-01-01; expected finite numbers",
        ),
        (
            thread_of(f"{__name__}:slope_line") + "settings = { slope = nan }\n",
            r"settings\.slope: nan; expected finite numbers",
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InputError, match=message):
        read(path, tmp_path)
