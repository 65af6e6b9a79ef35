"""Bases of 4 bits a number: adapters come out as by plain PEFT on bitsandbytes' own layers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from bitsandbytes import functional
from bitsandbytes.nn.modules import Linear4bit
from torch import Tensor

from auctune.domain.errors import InputError
from auctune.train import base as base_module
from auctune.train.base import Base, compute_digest, linear_features, load_base
from auctune.train.export import load_adapter
from auctune.train.job import LoraJob
from auctune.train.trainer import MultiLoraTrainer
from support.peft_alone import assert_close, train_alone, weights_of
from support.small_bases import FAMILIES, build_base, write_rows

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")

ROWS, VALIDATION_ROWS, EPOCHS = 12, 4, 2
# Of a whole job: validation rows count as work, at the end of each epoch.
TOTAL = (ROWS + VALIDATION_ROWS) * EPOCHS
# Rows of weights are whole blocks of 64 numbers.
WIDTH = 64


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {family: tmp_path_factory.mktemp(family) for family in FAMILIES}


@pytest.fixture(scope="module")
def plain(folders: dict[str, Path]) -> dict[str, Base]:
    return {family: build_base(folder, family, width=WIDTH) for family, folder in folders.items()}


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of 4 bits, but products in float32: what differs is an error, and not rounding."""
    monkeypatch.setitem(base_module.DTYPES, "nf4", torch.float32)


def jobs(folder: Path) -> list[LoraJob]:
    return [
        LoraJob(
            id=f"rank{rank}",
            data=write_rows(folder / f"{rank}.jsonl", ROWS, seed=rank),
            validation=write_rows(folder / f"validation{rank}.jsonl", VALIDATION_ROWS, seed=9),
            rank=rank,
            epochs=EPOCHS,
            learning_rate=3e-3,
            batch_size=4,
            schedule="constant",
            dropout=0.1,
            seed=rank,
        )
        for rank in (2, 5)
    ]


def train(base: Base, some: list[LoraJob], folder: Path, **options: int) -> MultiLoraTrainer:
    trainer = MultiLoraTrainer(base, **options)  # type: ignore[arg-type]
    for job in some:
        trainer.load(job, folder / job.id)
    return trainer


@pytest.mark.slow
@pytest.mark.usefixtures("plain", "exact")
@pytest.mark.parametrize("checkpointing", [0, 1])
@pytest.mark.parametrize("family", FAMILIES)
def test_fused_adapters_come_out_as_by_plain_peft(
    folders: dict[str, Path], tmp_path: Path, family: str, checkpointing: int
) -> None:
    base = load_base(str(folders[family]), cache=tmp_path, dtype="nf4")
    some = jobs(tmp_path)
    trainer = train(base, some, tmp_path, checkpointing=checkpointing)
    starts = [weights_of(trainer, job) for job in some]
    trainer.train({job.id: TOTAL for job in some}, lambda _: None)
    for job, start in zip(some, starts, strict=True):
        assert_close(weights_of(trainer, job), train_alone(base, job, start))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_an_adapter_is_exported_and_loads_on_the_plain_base_too(
    folders: dict[str, Path], plain: dict[str, Base], tmp_path: Path, family: str
) -> None:
    base, (job, _) = load_base(str(folders[family]), cache=tmp_path, dtype="nf4"), jobs(tmp_path)
    trainer = train(base, [job], tmp_path)
    trainer.train({job.id: TOTAL}, lambda _: None)
    folder = tmp_path / "adapter"
    trainer.export(job.id, folder)
    ids = torch.arange(8).unsqueeze(0)
    with torch.no_grad():
        packed, whole = (
            load_adapter(one, folder)(input_ids=ids).logits.float() for one in (base, plain[family])
        )
    # 4 bits are not the weights themselves, but near them.
    assert correlation(packed, whole) > 0.9


def correlation(one: Tensor, other: Tensor) -> float:
    return float(torch.corrcoef(torch.stack((one.flatten(), other.flatten())))[0, 1])


def test_a_base_of_4_bits_is_another_base_with_the_same_modules(
    folders: dict[str, Path], plain: dict[str, Base], tmp_path: Path
) -> None:
    first, again = (load_base(str(folders["llama"]), cache=tmp_path, dtype="nf4") for _ in range(2))
    assert first.digest == again.digest != plain["llama"].digest
    assert first.architecture != plain["llama"].architecture
    assert (first.dtype, first.weight_dtype) == (torch.bfloat16, "nf4")
    assert linear_features(first.model) == linear_features(plain["llama"].model)
    kinds = {type(layer) for layer in first.model.model.layers.modules()}
    assert Linear4bit in kinds
    assert torch.nn.Linear not in kinds
    assert type(first.model.get_output_embeddings()) is torch.nn.Linear


@pytest.mark.usefixtures("plain")
def test_the_digest_does_not_depend_on_how_a_device_packs_the_weights(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = load_base(str(folders["llama"]), cache=tmp_path, dtype="nf4")
    pack = functional.quantize_4bit

    def pack_otherwise(weights: Tensor, *args: Any, **options: Any) -> Any:
        return pack(weights * 1.01, *args, **options)

    monkeypatch.setattr(functional, "quantize_4bit", pack_otherwise)
    there = load_base(str(folders["llama"]), cache=tmp_path, dtype="nf4")
    assert compute_digest(there.model) != compute_digest(here.model)
    assert (there.digest, there.architecture) == (here.digest, here.architecture)


def test_bases_of_4_bits_with_other_weights_have_one_architecture(tmp_path: Path) -> None:
    bases = []
    for seed in (0, 1):
        folder = tmp_path / f"{seed}"
        build_base(folder, "llama", seed, width=WIDTH)
        bases.append(load_base(str(folder), cache=tmp_path, dtype="nf4"))
    assert bases[0].digest != bases[1].digest
    assert bases[0].architecture == bases[1].architecture


def test_without_bitsandbytes_the_package_is_named(
    plain: dict[str, Base], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base_module, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"bitsandbytes is not installed.*pip install"):
        load_base(plain["llama"].source, cache=tmp_path, dtype="nf4")


def test_layers_without_whole_blocks_are_refused_on_a_cpu(tmp_path: Path) -> None:
    narrow = build_base(tmp_path, "llama")
    with pytest.raises(InputError, match=r"nf4.*has 32 inputs.*a multiple of 64"):
        load_base(narrow.source, cache=tmp_path, dtype="nf4")


def test_a_checkpoint_of_4_bits_does_not_continue_on_the_plain_base(
    folders: dict[str, Path], plain: dict[str, Base], tmp_path: Path
) -> None:
    base, (job, _) = load_base(str(folders["gpt2"]), cache=tmp_path, dtype="nf4"), jobs(tmp_path)
    trainer = train(base, [job], tmp_path)
    trainer.train({job.id: 4}, lambda _: None)
    trainer.save(job.id, 1)
    with pytest.raises(Exception, match="base_digest"):
        train(plain["gpt2"], [replace(job)], tmp_path)
