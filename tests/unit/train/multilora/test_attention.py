"""Packed rows come to what each comes to alone, or are not packed."""

import logging
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    PreTrainedModel,
    Qwen2MoeConfig,
    Qwen2MoeForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    RobertaConfig,
    RobertaForCausalLM,
)
from transformers.utils import logging as transformers_logging

from auctune.train.multilora.attention import ATTENTION_NAME, PackedRows, enable_packing

SHAPE = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 64, "initializer_range": 0.3,
    "pad_token_id": 0,
}  # fmt: skip
GQA = SHAPE | {"num_key_value_heads": 2}
PACKED: dict[str, Any] = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**GQA)),
    "mistral, window": lambda: MistralForCausalLM(MistralConfig(**GQA, sliding_window=3)),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**GQA, head_dim=8)),
    "phi3": lambda: Phi3ForCausalLM(Phi3Config(**GQA)),
    "gpt-neox": lambda: GPTNeoXForCausalLM(GPTNeoXConfig(**SHAPE)),
}
PADDED: dict[str, Any] = {
    "positions from a mask": lambda: BloomForCausalLM(
        BloomConfig(vocab_size=64, hidden_size=32, n_layer=2, n_head=4)
    ),
    "a state": lambda: MambaForCausalLM(
        MambaConfig(vocab_size=64, hidden_size=32, state_size=4, num_hidden_layers=2)
    ),
    "positions that begin elsewhere": lambda: RobertaForCausalLM(
        RobertaConfig(**SHAPE | {"pad_token_id": 1}, is_decoder=True)
    ),
    "a window in the mask alone": lambda: Qwen2MoeForCausalLM(
        Qwen2MoeConfig(
            **GQA,
            num_experts=2,
            num_experts_per_tok=1,
            moe_intermediate_size=24,
            shared_expert_intermediate_size=40,
            use_sliding_window=True,
            sliding_window=3,
            layer_types=["sliding_attention", "full_attention"],
        )
    ),
    "capped scores": lambda: Gemma2ForCausalLM(Gemma2Config(**GQA, head_dim=8)),
}
LENGTHS = (5, 5, 1, 9, 2)


def make(build: Any) -> PreTrainedModel:
    torch.manual_seed(0)
    model: PreTrainedModel = build()
    return model.requires_grad_(False).eval()


def packed(model: PreTrainedModel, rows: list[Tensor]) -> Tensor:
    lengths = tuple(map(len, rows))
    ends = torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)
    positions = torch.cat([torch.arange(length) for length in lengths])
    logits: Tensor = model(
        input_ids=torch.cat(rows).unsqueeze(0),
        position_ids=positions.unsqueeze(0),
        packed_rows=PackedRows(lengths, ends, max(lengths)),
        use_cache=False,
    ).logits
    return logits[0]


@pytest.mark.parametrize("name", PACKED)
def test_rows_that_are_packed_do_not_see_each_other(name: str) -> None:
    model = make(PACKED[name])
    rows = [torch.randint(1, 64, (length,)) for length in LENGTHS]
    alone = [model(input_ids=row.unsqueeze(0), use_cache=False).logits[0] for row in rows]
    assert enable_packing(model)
    assert model.config._attn_implementation == ATTENTION_NAME
    torch.testing.assert_close(packed(model, rows), torch.cat(alone), rtol=1e-4, atol=1e-4)
    # Without packed rows as before, row by row.
    again = model(input_ids=rows[3].unsqueeze(0), use_cache=False).logits[0]
    torch.testing.assert_close(again, alone[3], rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PADDED)
def test_a_model_that_cannot_pack_rows_is_left_as_it_was(name: str) -> None:
    model = make(PADDED[name])
    before = model.config._attn_implementation
    ids = torch.arange(8).unsqueeze(0)
    logits = model(input_ids=ids, use_cache=False).logits
    assert not enable_packing(model)
    assert model.config._attn_implementation == before
    assert torch.equal(model(input_ids=ids, use_cache=False).logits, logits)


def test_layers_whose_kind_is_not_known_are_not_packed() -> None:
    model = make(PACKED["llama"])
    model.config.layer_types = ["chunked_attention", "full_attention"]
    assert not enable_packing(model)


def test_tokens_that_mix_across_rows_by_other_means_are_not_packed() -> None:
    model = make(PACKED["llama"])
    layers: Any = model.get_submodule("model.layers")

    def shift(_module: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        x, *others = inputs
        return (x + 0.1 * x.roll(1, dims=1), *others)

    layers[1].register_forward_pre_hook(shift)
    assert not enable_packing(model)


@pytest.mark.parametrize("padding", [1, 7, 8, 12])
def test_a_model_that_is_tried_logs_nothing(padding: int) -> None:
    model = make(
        lambda: GPT2LMHeadModel(
            GPT2Config(vocab_size=64, n_embd=32, n_layer=1, n_head=4, pad_token_id=padding)
        )
    )
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign, assignment]
    transformers_logging.warning_once.cache_clear()
    transformers_logging.add_handler(handler)
    try:
        assert enable_packing(model)
    finally:
        transformers_logging.remove_handler(handler)
    assert records == []
