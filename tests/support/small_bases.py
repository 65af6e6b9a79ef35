"""Small bases of two architectures, built from their configurations, and data for them."""

import json
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2MoeConfig,
    Qwen2MoeForCausalLM,
)

from auctune.train.base import Base, load_base

WORDS = [f"word{number}" for number in range(61)]
FAMILIES = ("gpt2", "llama")


def build_base(
    folder: Path, family: str, seed: int = 0, width: int = 32, num_layers: int = 2
) -> Base:
    """A base with a tokenizer of one token a word."""
    torch.manual_seed(seed)
    build_model(family, width, num_layers).save_pretrained(folder)
    build_tokenizer().save_pretrained(str(folder))
    return load_base(str(folder), cache=folder)


def build_model(family: str, width: int = 32, num_layers: int = 2) -> PreTrainedModel:
    """Large starting weights make gradients that are far from rounding."""
    if family == "gpt2":
        return GPT2LMHeadModel(
            GPT2Config(
                vocab_size=64, n_positions=64, n_embd=width, n_layer=num_layers, n_head=2,
                initializer_range=0.2, bos_token_id=0, eos_token_id=0,
            )
        )  # fmt: skip
    if family == "qwen2_moe":
        return Qwen2MoeForCausalLM(
            Qwen2MoeConfig(
                vocab_size=64, max_position_embeddings=64, hidden_size=32, intermediate_size=48,
                num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, num_experts=4,
                num_experts_per_tok=2, moe_intermediate_size=24, initializer_range=0.2,
                shared_expert_intermediate_size=40, bos_token_id=0, eos_token_id=0, pad_token_id=0,
            )
        )  # fmt: skip
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=64, max_position_embeddings=64, hidden_size=width,
            intermediate_size=48 if width == 32 else 2 * width,
            num_hidden_layers=num_layers, num_attention_heads=4, num_key_value_heads=2,
            initializer_range=0.2, bos_token_id=0, eos_token_id=0, pad_token_id=0,
        )
    )  # fmt: skip


def build_tokenizer() -> PreTrainedTokenizerFast:
    vocabulary = {word: number for number, word in enumerate(["<end>", "<unknown>", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unknown>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<end>", unk_token="<unknown>", pad_token="<end>"
    )


def write_rows(path: Path, count: int, seed: int, longest: int = 12) -> Path:
    """A file of prompts and completions of 1 to `longest` words each."""
    generator = np.random.default_rng(seed)
    with path.open("w") as lines:
        for _ in range(count):
            prompt, completion = (
                " ".join(generator.choice(WORDS, size=generator.integers(1, longest + 1)))
                for _ in range(2)
            )
            lines.write(json.dumps({"prompt": prompt + " ", "completion": completion}) + "\n")
    return path


def write_ratings(path: Path, count: int, seed: int = 0) -> Path:
    """A file of prompts with an answer each, and whether it is liked."""
    generator = np.random.default_rng(seed)

    def words(most: int) -> str:
        return " ".join(generator.choice(WORDS, size=generator.integers(1, most)))

    rows = [
        {
            "messages": [
                {"role": "user", "content": words(7)},
                {"role": "assistant", "content": words(9)},
            ],
            "label": bool(generator.integers(2)),
        }
        for _ in range(count)
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def write_pairs(path: Path, count: int, seed: int = 0) -> Path:
    """A file of prompts with a preferred and another answer."""
    generator = np.random.default_rng(seed)

    def words(most: int) -> str:
        return " ".join(generator.choice(WORDS, size=generator.integers(1, most)))

    def answer() -> list[dict[str, str]]:
        return [{"role": "assistant", "content": words(9)}]

    rows = [
        {
            "input": {"messages": [{"role": "user", "content": words(7)}]},
            "preferred_output": answer(),
            "non_preferred_output": answer(),
        }
        for _ in range(count)
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path
