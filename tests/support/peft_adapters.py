"""Adapters as plain PEFT saves them, with weights that are not those of a new one."""

import warnings
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from transformers import PreTrainedModel

from auctune.train.adapter_files import read_start
from auctune.train.base import Base
from support.small_bases import build_model

TARGETS: dict[str, list[str] | str] = {
    "gpt2": ["c_attn", "mlp.c_proj"],
    "llama": "all-linear",
}


def save_adapter(
    folder: Path, family: str = "llama", model: PreTrainedModel | None = None, **fields: Any
) -> Path:
    """Save an adapter on a small base, or on `model`, whose modules are replaced in place."""
    fields = {"target_modules": TARGETS[family], "r": 3, "lora_alpha": 5} | fields
    config = LoraConfig(task_type="CAUSAL_LM", fan_in_fan_out=family == "gpt2", **fields)
    torch.manual_seed(0)
    with warnings.catch_warnings():
        # PEFT asks by a name that transformers is about to drop.
        warnings.filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)
        adapted = get_peft_model(build_model(family) if model is None else model, config)
    for name, parameter in adapted.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    adapted.save_pretrained(str(folder))
    return folder


def start_of(folder: Path, base: Base, family: str) -> dict[str, Any]:
    """The fields of a job that starts from an adapter."""
    path = save_adapter(folder / "start", family, base.fresh_model())
    adapter, _ = read_start(path, "start_from")
    return {"start_from": path, "start_digest": adapter.digest, **adapter.settings({})}
