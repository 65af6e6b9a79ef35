"""Adapters that a job goes on from may be anybody's: what is wrong with one is said by name."""

import json
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from auctune.domain.errors import InputError
from auctune.train.adapter_files import pack_adapter, read_start, write_record
from auctune.train.multilora.adapters import adapter_shapes
from support.peft_adapters import save_adapter
from support.small_bases import FAMILIES, build_model

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


def change_config(folder: Path, **fields: Any) -> None:
    path = folder / CONFIG
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def change_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    weights = load_file(folder / WEIGHTS)
    change(weights)
    save_file(weights, folder / WEIGHTS)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_adapter_of_plain_peft_is_read_as_it_is(family: str, tmp_path: Path) -> None:
    folder = save_adapter(tmp_path / "adapter", family, use_rslora=True)
    start, weights = read_start(folder, "start_from")
    assert (start.rank, start.alpha, start.use_rslora) == (3, 5.0, True)
    assert start.base_digest is None
    saved = load_file(folder / WEIGHTS)
    assert {f"base_model.model.{name}" for name in weights} == set(saved)
    for name, values in weights.items():
        assert np.array_equal(values, saved[f"base_model.model.{name}"].numpy())
    # The shapes that the base needs are those that PEFT saved.
    model = build_model(family)
    start.check_shapes(adapter_shapes(start, model), "start_from")
    if family == "llama":
        every = replace(start, target_modules=())
        start.check_shapes(adapter_shapes(every, model), "start_from")
    with pytest.raises(InputError, match="target_modules: Target modules"):
        adapter_shapes(replace(start, target_modules=("nothing",)), model)


def test_an_archive_and_its_folder_are_the_same_adapter(tmp_path: Path) -> None:
    folder = save_adapter(tmp_path / "adapter")
    write_record("digest", folder)
    (folder / "README.md").write_text("not of the adapter")
    pack_adapter(folder, tmp_path / "adapter.zip")
    pack_adapter(tmp_path / "adapter.zip", tmp_path / "again.zip")
    assert (tmp_path / "adapter.zip").read_bytes() == (tmp_path / "again.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "adapter.zip") as archive:
        assert len(archive.namelist()) == 3
    of_folder, of_archive = (
        read_start(path, "start_from")[0] for path in (folder, tmp_path / "adapter.zip")
    )
    assert of_folder == of_archive
    assert of_folder.base_digest == "digest"
    change_config(folder, lora_alpha=6)
    assert read_start(folder, "start_from")[0].digest != of_archive.digest


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_weights_of_half_precision_are_read_without_rounding(
    dtype: torch.dtype, tmp_path: Path
) -> None:
    folder = save_adapter(tmp_path / "adapter")
    change_weights(folder, lambda weights: weights.update(
        {name: tensor.to(dtype) for name, tensor in weights.items()}
    ))  # fmt: skip
    saved = load_file(folder / WEIGHTS)
    for name, values in read_start(folder, "start_from")[1].items():
        assert np.array_equal(values, saved[f"base_model.model.{name}"].float().numpy())


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"use_dora": True}, "DoRA is not supported"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save is not supported"),
        ({"rank_pattern": {"q_proj": 9}}, "ranks by module is not supported"),
        ({"exclude_modules": ["q_proj"]}, "exclude_modules"),
        ({"use_qalora": True}, "use_qalora"),
        ({"a_field_of_the_future": 1}, "a_field_of_the_future"),
        ({"bias": "all"}, "bias"),
        ({"task_type": "SEQ_CLS"}, "task_type"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights"),
        ({"init_lora_weights": {}}, "init_lora_weights"),
        ({"peft_type": "IA3"}, "peft_type"),
        ({"target_modules": "model.*proj"}, "regular expression"),
        ({"target_modules": []}, "target_modules"),
        ({"r": 0}, "rank"),
        ({"r": "8"}, "r"),
        ({"lora_alpha": float("nan")}, "alpha"),
    ],
)
def test_what_the_trainer_does_not_compute_is_refused_by_name(
    fields: dict[str, Any], named: str, tmp_path: Path
) -> None:
    folder = save_adapter(tmp_path / "adapter")
    change_config(folder, **fields)
    with pytest.raises(InputError, match=r"start_from: adapter_config.json") as caught:
        read_start(folder, "start_from")
    assert named in str(caught.value)


def first(weights: dict[str, torch.Tensor], part: str = "lora_A") -> str:
    return next(name for name in sorted(weights) if part in name)


def put(name: str, value: float) -> Callable[[dict[str, torch.Tensor]], None]:
    def change(weights: dict[str, torch.Tensor]) -> None:
        weights[first(weights, name)][0, 0] = value

    return change


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (put("lora_A", float("nan")), "not finite"),
        (put("lora_B", float("-inf")), "not finite"),
        (lambda w: w.update({"base_model.model.lm_head.weight": torch.ones(2, 2)}), "lm_head"),
        (lambda w: w.update({"lora_A.weight": torch.ones(2, 2)}), "lora_A and lora_B alone"),
        (lambda w: w.update({first(w): w[first(w)].to(torch.int64)}), "I64"),
        (lambda w: w.update({first(w): torch.ones(3)}), "a matrix"),
        (lambda w: w.clear(), "no weights"),
    ],
)
def test_weights_that_are_not_an_adapters_are_refused(
    change: Callable[[dict[str, torch.Tensor]], None], named: str, tmp_path: Path
) -> None:
    folder = save_adapter(tmp_path / "adapter")
    change_weights(folder, change)
    with pytest.raises(InputError, match=r"start_from: adapter_model.safetensors") as caught:
        read_start(folder, "start_from")
    assert named in str(caught.value)


def test_files_that_are_cut_missing_or_pickles_are_refused(tmp_path: Path) -> None:
    folder = save_adapter(tmp_path / "adapter")
    whole = (folder / WEIGHTS).read_bytes()
    for content in (whole[:-1], whole[:9], b"", b"\xff" * 64):
        (folder / WEIGHTS).write_bytes(content)
        with pytest.raises(InputError, match="is not whole"):
            read_start(folder, "start_from")
    (folder / WEIGHTS).rename(folder / "adapter_model.bin")
    with pytest.raises(InputError, match=r"has no adapter_model\.safetensors"):
        read_start(folder, "start_from")
    for name, content in (("text", b"no archive"), ("rows", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match="neither a folder nor a whole zip archive"):
            read_start(tmp_path / name, "start_from")
    with pytest.raises(InputError, match="cannot be read"):
        read_start(tmp_path / "nothing", "start_from")
    (folder / "auctune.json").write_text("[]")
    (folder / WEIGHTS).write_bytes(whole)
    with pytest.raises(InputError, match=r"auctune\.json: does not say which base"):
        read_start(folder, "start_from")
    (folder / CONFIG).write_text("[]")
    (folder / WEIGHTS).write_bytes(whole)
    with pytest.raises(InputError, match="is not a JSON object"):
        read_start(folder, "start_from")


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_archive_with_damaged_contents_is_refused(compression: int, tmp_path: Path) -> None:
    folder = save_adapter(tmp_path / "adapter")
    with zipfile.ZipFile(tmp_path / "zip", "w", compression) as archive:
        for path in folder.iterdir():
            archive.write(path, path.name)
    read_start(tmp_path / "zip", "start_from")
    content = (tmp_path / "zip").read_bytes()
    for place in range(0, len(content), len(content) // 100):
        damaged = content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :]
        (tmp_path / "zip").write_bytes(damaged)
        with suppress(InputError):
            read_start(tmp_path / "zip", "start_from")


def test_a_small_archive_of_a_large_file_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"adapter/{CONFIG}", b" " * 2**24)
        archive.writestr(f"adapter/{WEIGHTS}", b"")
    with pytest.raises(InputError, match="has more than 1,048,576 bytes"):
        read_start(tmp_path / "a.zip", "start_from")
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr(f"a/{CONFIG}", b"{}")
        archive.writestr(f"b/{CONFIG}", b"{}")
    with pytest.raises(InputError, match="has two files adapter_config"):
        read_start(tmp_path / "two.zip", "start_from")


def test_weights_of_another_base_are_refused_by_name(tmp_path: Path) -> None:
    start, _ = read_start(save_adapter(tmp_path / "adapter", "gpt2"), "start_from")
    inner = {name: start.shapes[name] for name in start.shapes}
    name = next(iter(sorted(inner)))
    start.check_shapes(inner, "start_from")
    for wrong, found in (
        ({**inner, name: (3, 9)}, r"has shape \[3, 32\], where the base needs \[3, 9\]"),
        ({**inner, "new.lora_A.weight": (3, 9)}, "is missing"),
        ({one: shape for one, shape in inner.items() if one != name}, "is not a weight of"),
    ):
        with pytest.raises(InputError, match=found):
            start.check_shapes(wrong, "start_from")


def test_settings_that_contradict_the_adapter_are_refused_by_name(tmp_path: Path) -> None:
    start, _ = read_start(save_adapter(tmp_path / "adapter", "gpt2"), "start_from")
    own = start.settings({"rank": 3, "target_modules": ["mlp.c_proj", "c_attn"], "epochs": 9})
    assert own == {
        "rank": 3,
        "alpha": 5.0,
        "use_rslora": False,
        "target_modules": ("c_attn", "mlp.c_proj"),
    }
    for name, value in (("rank", 8), ("alpha", 16.0), ("use_rslora", True)):
        with pytest.raises(InputError) as caught:
            start.settings({name: value}, "market.lora.")
        assert caught.value.place == f"market.lora.{name}"
    with pytest.raises(InputError, match=r"c_attn, mlp\.c_proj"):
        start.settings({"target_modules": ["c_attn"]})
