"""Bases of realistic size that need no download: random weights, the tiny base's tokenizer."""

from dataclasses import replace
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from auctune.engine.base_place import base_cache
from auctune.train.base import Base, compute_architecture, load_base, share_weights
from auctune.train.tokenizer import quiet_transformers

SHAPES = {
    "llama-8b": {"hidden_size": 4096, "intermediate_size": 14_336, "num_hidden_layers": 32},
    "llama-1b": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16},
}
"""Shapes of Llama 3, with its heads and its vocabulary of 128,256 tokens."""
_TINY = {"hidden_size": 128, "intermediate_size": 96, "num_hidden_layers": 2}


def random_gpt2_small(folder: Path, device: str = "cpu") -> Base:
    """Write GPT-2 small to a folder, and load it on a device."""
    torch.manual_seed(0)
    path = folder / "gpt2-small"
    with quiet_transformers():
        GPT2LMHeadModel(GPT2Config()).save_pretrained(path)
    load_base("tiny", cache=folder).tokenizer.save_pretrained(str(path))
    dtype = "bfloat16" if device.startswith("cuda") else "float32"
    return load_base(str(path), cache=folder, device=device, dtype=dtype)


def random_llama(shape: str, device: torch.device) -> Base:
    """Return a base of one of `SHAPES`, made in bfloat16 on a GPU; on a CPU a tiny one."""
    is_gpu = device.type == "cuda"
    config = LlamaConfig(
        **(SHAPES[shape] if is_gpu else _TINY),
        vocab_size=128_256 if is_gpu else 1100,
        num_attention_heads=32 if is_gpu else 4,
        num_key_value_heads=8 if is_gpu else 2,
        max_position_embeddings=8192,
        tie_word_embeddings=shape == "llama-1b",
    )
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16 if is_gpu else torch.float32)
    try:
        with device:
            model = LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(before)
    model.requires_grad_(False)
    return replace(
        load_base("tiny", cache=base_cache()),
        name=shape,
        source=shape,
        model=model,
        digest="random",
        architecture=compute_architecture(model),
        device=device,
        dtype=model.dtype,
        _untouched=share_weights(model),
    )


def random_llama_folder(shape: str, device: torch.device, folder: Path) -> Path:
    """Return the folder `folder/SHAPE` of a base of one of `SHAPES`, written unless it is there."""
    path = folder / shape
    if not (path / "tokenizer.json").exists():
        base = random_llama(shape, device)
        base.model.save_pretrained(path)
        base.tokenizer.save_pretrained(str(path))
    return path
