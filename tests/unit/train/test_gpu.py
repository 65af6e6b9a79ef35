"""What only a GPU can show; `make gpu` runs it."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from auctune.train.base import Base, load_base
from auctune.train.job import LoraJob
from auctune.train.multilora.segment_backends import (
    BmmBackend,
    GroupedBackend,
    LoopBackend,
    SegmentBackend,
)
from auctune.train.out_of_memory import is_out_of_memory
from auctune.train.preemptible import LoraJobFactory
from auctune.train.trainer import MultiLoraTrainer
from support.lora_products import Case, check_products
from support.small_bases import build_base, write_rows

pytestmark = pytest.mark.gpu

DEVICE = "cuda:0"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    build_base(folder, "llama")
    return folder


def base_on(device: str, folder: Path, dtype: str = "float32") -> Base:
    return load_base(str(folder), cache=folder, device=device, dtype=dtype)


def jobs(folder: Path, ranks: tuple[int, ...]) -> list[LoraJob]:
    return [
        LoraJob(
            f"job-{n}", write_rows(folder / f"{n}.jsonl", 12, n), rank=rank, batch_size=5, epochs=2
        )
        for n, rank in enumerate(ranks)
    ]


def trained(trainer: MultiLoraTrainer, some: list[LoraJob], folder: Path) -> dict[str, Tensor]:
    for job in some:
        trainer.load(job, folder / job.id)
    trainer.train({job.id: 24 for job in some}, lambda _: None)
    return {
        f"{job.id} {name}": tensor.cpu()
        for job in some
        for name, tensor in trainer.weights(job.id).items()
    }


@pytest.mark.parametrize("backend", [LoopBackend(), BmmBackend(), GroupedBackend()])
@pytest.mark.parametrize("ranks", [(1, 3, 64), (8, 8, 8), (17, 5, 32)])
def test_products_of_odd_segments_are_right(
    backend: SegmentBackend, ranks: tuple[int, ...]
) -> None:
    case = Case(((0, 7), (7, 40), (53, 54)), ranks, 60, 136, 264)
    check_products(backend, case, tolerance=5e-2, device=DEVICE, dtype=torch.bfloat16)


def test_a_gpu_trains_the_adapters_that_a_cpu_trains(folder: Path, tmp_path: Path) -> None:
    some = jobs(tmp_path, (4, 16, 64))
    found = trained(MultiLoraTrainer(base_on(DEVICE, folder)), some, tmp_path / "gpu")
    expected = trained(MultiLoraTrainer(base_on("cpu", folder)), some, tmp_path / "cpu")
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=5e-3, atol=5e-4)


def test_jobs_together_in_bfloat16_differ_from_jobs_alone_by_rounding(
    folder: Path, tmp_path: Path
) -> None:
    base, some = base_on(DEVICE, folder, "bfloat16"), jobs(tmp_path, (4, 16, 64))
    trainer = MultiLoraTrainer(base)
    together = trained(trainer, some, tmp_path / "together")
    for job in some:
        alone = MultiLoraTrainer(base)
        trained(alone, [job], tmp_path / "alone")
        losses = [[loss for *_, loss, _ in one.curve(job.id)] for one in (trainer, alone)]
        assert losses[0] == pytest.approx(losses[1], rel=0.05)
        assert trainer.export(job.id, tmp_path / "adapter").difference < 1
    assert all(tensor.isfinite().all() for tensor in together.values())


def test_a_job_that_left_the_gpu_continues_with_the_same_bits(folder: Path, tmp_path: Path) -> None:
    factory = LoraJobFactory(base_on(DEVICE, folder, "bfloat16"))
    (job,) = jobs(tmp_path, (8,))
    whole = factory.make(replace(job, id="whole", schedule="constant"), tmp_path / "none")
    paused = factory.make(replace(job, id="paused", schedule="constant"), tmp_path / "none")
    expected = [whole.step(1) for _ in range(4)]
    found = []
    for _ in range(4):
        found.append(paused.step(1))
        paused.suspend()
        assert paused.resting_bytes == 0
        paused.resume()
    assert found == expected


@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
def test_a_base_is_on_its_gpu_which_is_the_current_one(device: str, folder: Path) -> None:
    base = base_on(device, folder)
    assert base.device == base.model.device == torch.device(DEVICE)
    assert torch.cuda.current_device() == base.device.index


def test_a_base_of_4_bits_has_one_digest_on_all_devices(tmp_path: Path) -> None:
    pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed")
    # Rows of weights are whole blocks of 64 numbers.
    build_base(tmp_path, "llama", width=64)
    there, here = (base_on(device, tmp_path, "nf4") for device in (DEVICE, "cpu"))
    assert (there.digest, there.architecture) == (here.digest, here.architecture)


def test_memory_that_runs_out_is_recognized() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**46, device=DEVICE)
    assert is_out_of_memory(caught.value)
