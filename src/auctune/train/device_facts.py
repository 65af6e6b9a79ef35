"""What can be asked of a device and a base without running them."""

import os
import re
from pathlib import Path

import torch
from peft.utils import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING
from torch import nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from auctune.train.machine import cpu_name

CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
OWN_PAGES = Path("/proc/self/statm")


def device_name(device: torch.device) -> str:
    """The name of a GPU, or of the CPU's model."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return cpu_name()


def usable_bytes(device: torch.device, base_bytes: int) -> int:
    """Memory that the base, already on the device, and its tasks can share.

    What the process itself or others hold there is taken off: on a GPU the driver's context, on a
    CPU Python and its libraries.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device)
    page = os.sysconf("SC_PAGE_SIZE")
    total = page * os.sysconf("SC_PHYS_PAGES")
    limit = CGROUP_LIMIT.read_text().strip() if CGROUP_LIMIT.is_file() else "max"
    if limit.isdecimal():
        total = min(total, int(limit))
    resident = page * int(OWN_PAGES.read_text().split()[1]) if OWN_PAGES.is_file() else 0
    return total - max(0, resident - base_bytes)


def linear_features(model: PreTrainedModel) -> dict[str, int]:
    """Input and output features of all modules that LoRA can adapt, summed over layers.

    Modules that differ only in the numbers in their names count as one, with * for the numbers.
    """
    features: dict[str, int] = {}
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear | Conv1D):
            pattern = module_pattern(name)
            features[pattern] = features.get(pattern, 0) + sum(module.weight.shape)
    return features


def module_pattern(name: str) -> str:
    """Return a module's name with * for each number, of a layer or an expert."""
    return re.sub(r"(?<=\.)\d+(?=\.|$)", "*", name)


def default_modules(model: PreTrainedModel) -> tuple[str, ...]:
    """The modules that PEFT adapts in this architecture if none are named; may be none."""
    known = TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING
    return tuple(known.get(model.config.model_type, ()))
