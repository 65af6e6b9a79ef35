"""Adapters of a bundle are those of the trainer, whatever they learn and whatever interrupts it."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import pytest
import torch
from safetensors.torch import load_file

from auctune.domain.errors import InputError
from auctune.engine.pool.bundle import Bundle, read_bundle
from auctune.engine.pool.events import JobOutlook, PoolEvent, QuantumTrained
from auctune.engine.workers.pool_jobs import LoraJobs
from auctune.sim.timeshare.bundle_file import read_bundle_file
from auctune.train.adapter_files import read_epochs, read_start
from auctune.train.base import Base
from auctune.train.job import LoraJob
from auctune.train.preemptible import LoraJobFactory
from auctune.train.trainer import MultiLoraTrainer
from support.bundle_runs import resume_bundle, run_bundle
from support.peft_adapters import save_adapter
from support.small_bases import build_base, write_pairs, write_rows

SETTINGS = {"method": "dpo", "beta": 0.3, "batch_size": 3, "learning_rate": 0.01, "dropout": 0.1}
# A unit gives each thread 3 batches, which are an epoch of the pairs.
BUNDLE = """
[pool]
allocator = "uniform"
memory_gb = {memory_gb}

[[thread]]
name = "pairs"
deadline = 12
threshold = {threshold}
kind = "lora"
batches_per_unit = 6
settings.base = "base"
settings.data = "pairs.jsonl"
settings.start_from = "start"
settings.method = "dpo"
settings.beta = 0.3
settings.batch_size = 3
settings.learning_rate = 0.01
settings.dropout = 0.1

[[thread]]
name = "rows"
deadline = 12
threshold = 1e-6
kind = "lora"
batches_per_unit = 6
settings.base = "base"
settings.data = "rows.jsonl"
settings.batch_size = 2
settings.rank = 2
settings.target_modules = ["c_attn"]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def base(folder: Path) -> Base:
    base = build_base(folder / "base", "gpt2")
    save_adapter(folder / "start", "gpt2", base.fresh_model())
    write_pairs(folder / "pairs.jsonl", 7)
    write_rows(folder / "rows.jsonl", 6, seed=1)
    return base


@pytest.fixture(scope="module")
def job(base: Base, folder: Path) -> LoraJob:
    """The thread `pairs`, for 8 epochs."""
    start, _ = read_start(folder / "start", "start_from")
    return LoraJob(
        id="pairs",
        data=folder / "pairs.jsonl",
        start_from=folder / "start",
        start_digest=start.digest,
        schedule="constant",
        epochs=8,
        **start.settings({}),
        **SETTINGS,  # type: ignore[arg-type]
    )


def bundle_of(folder: Path, threshold: float, memory_bytes: int) -> Bundle:
    path = folder / "bundle.toml"
    path.write_text(BUNDLE.format(threshold=threshold, memory_gb=memory_bytes / 1e9))
    return read_bundle(read_bundle_file(path), path, folder, folder, every=0.0)


def interrupt(event: PoolEvent, outlooks: Sequence[JobOutlook]) -> None:
    if isinstance(event, QuantumTrained) and event.time % 3 == 2:
        raise KeyboardInterrupt


def test_preferences_are_learnt_from_an_adapter_with_turns_and_kills_as_in_one_go(
    base: Base, folder: Path, job: LoraJob, tmp_path: Path
) -> None:
    alone = MultiLoraTrainer(base, mode="exact", kept_epochs=3)
    alone.load(job, tmp_path / "alone")
    alone.train({job.id: 10**6}, lambda _: None)
    means = [
        fmean(loss for *_, loss, _ in alone.curve("pairs")[n : n + 3]) for n in range(0, 24, 3)
    ]
    num_epochs = 4 + next(n for n in range(4) if means[3 + n] == min(means[: 4 + n]))

    # There is room for one of the two.
    needs = LoraJobFactory(base).make(job, tmp_path / "none").memory_bytes
    for _ in range(6):
        bundle = bundle_of(folder, means[num_epochs - 1] * (1 + 1e-9), needs * 9 // 8)
        run = resume_bundle if (tmp_path / "run").exists() else run_bundle
        try:
            figures = run(bundle, tmp_path / "run", interrupt)
            break
        except KeyboardInterrupt:
            pass
    pairs, rows = figures["threads"]
    assert (pairs["done"], rows["done"]) == (True, False)
    assert pairs["batches"] == 3 * num_epochs
    assert [unit["loss"] for unit in pairs["losses"]][:num_epochs] == pytest.approx(
        means[:num_epochs]
    )

    as_long = MultiLoraTrainer(base, mode="exact", kept_epochs=3)
    as_long.load(job, tmp_path / "as_long")
    as_long.train({job.id: 7 * num_epochs}, lambda _: None)
    as_long.save(job.id, 1)
    result = tmp_path / "run" / "results" / "pairs"
    found = load_file(result / "adapter" / "adapter_model.safetensors")
    for name, tensor in as_long.weights("pairs").items():
        assert torch.equal(found[f"base_model.model.{name}"], tensor)
    kept, expected = read_epochs(result), read_epochs(tmp_path / "as_long")
    assert [metrics for metrics, _ in kept] == [metrics for metrics, _ in expected]
    assert [metrics.epoch for metrics, _ in kept] == [num_epochs - n for n in (2, 1, 0)]


def test_a_job_of_an_open_pool_starts_from_an_adapter_that_may_not_change(
    base: Base, folder: Path, job: LoraJob, tmp_path: Path
) -> None:
    alone = MultiLoraTrainer(base, mode="exact")
    alone.load(job, tmp_path / "alone")
    alone.train({job.id: 7}, lambda _: None)
    unused = ("epochs", "schedule", "warmup_ratio", "patience")
    settings = {
        name: value for name, value in job.hyperparameters().items() if name not in unused
    } | {
        "data": str(folder / "pairs.jsonl"),
        "start_from": str(folder / "start"),
        "start_digest": job.start_digest,
    }
    factory = LoraJobs(LoraJobFactory(base))
    made = factory.make("pairs", json.loads(json.dumps(settings)))
    made.step(3)
    assert torch.equal(made.state().tensors["adapter"], alone.task("pairs").weights.values)
    with pytest.raises(InputError, match="start_from: is not the adapter"):
        factory.make("other", settings | {"start_digest": "0"})


def test_settings_that_contradict_the_adapter_are_named(base: Base, folder: Path) -> None:
    path = folder / "wrong.toml"
    text = BUNDLE.format(threshold=0.5, memory_gb=1.0)
    path.write_text(text.replace("settings.beta = 0.3", "settings.rank = 8"))
    with pytest.raises(InputError, match=r"thread\[0\]\.settings\.rank: 8, where the adapter"):
        read_bundle(read_bundle_file(path), path, folder, folder, every=0.0)
