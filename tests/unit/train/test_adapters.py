"""The contract with PEFT's custom-module hook, which is not a public interface."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig
from torch import nn
from transformers.pytorch_utils import Conv1D

from auctune.domain.errors import InputError
from auctune.train.multilora.adapters import AdaptedModel, check_config
from auctune.train.multilora.backends import LoopBackend
from auctune.train.multilora.layer import MultiLoraLinear, Routing, Segment
from support.small_bases import FAMILIES, build_model


def adapted_model(family: str) -> AdaptedModel:
    torch.manual_seed(0)
    model = build_model(family)
    model.requires_grad_(False).train(False)
    return AdaptedModel(model, LoopBackend())


@pytest.mark.parametrize(("family", "kind"), [("gpt2", Conv1D), ("llama", nn.Linear)])
def test_the_hook_puts_our_layers_where_peft_would_put_its_own(
    family: str, kind: type[nn.Module]
) -> None:
    adapted = adapted_model(family)
    weights = adapted.add("one", LoraConfig(task_type="CAUSAL_LM"), seed=0)
    layers = {
        name: layer
        for name, layer in adapted.model.named_modules()
        if isinstance(layer, MultiLoraLinear)
    }
    assert all(isinstance(layer.get_base_layer(), kind) for layer in layers.values())
    assert set(weights.parameters) == {
        f"{name}.{part}.weight" for name in layers for part in ("lora_A", "lora_B")
    }
    targets = set(adapted.config("one").target_modules or ())
    assert targets == ({"c_attn"} if family == "gpt2" else {"q_proj", "v_proj"})


def test_the_hook_leaves_no_trace_in_what_is_saved(tmp_path: Path) -> None:
    adapted = adapted_model("llama")
    adapted.add("one", LoraConfig(task_type="CAUSAL_LM", r=3), seed=0)
    adapted.config("one").save_pretrained(str(tmp_path))
    saved = json.loads((tmp_path / "adapter_config.json").read_text())
    assert saved["r"] == 3
    assert "Fused" not in json.dumps(saved)


def test_all_adapters_train_at_once_and_nothing_else_does() -> None:
    adapted = adapted_model("llama")
    for name, targets in (("one", ["q_proj"]), ("two", ["q_proj", "up_proj"]), ("three", None)):
        adapted.add(name, LoraConfig(task_type="CAUSAL_LM", target_modules=targets), seed=0)
    adapted.remove("two")
    trained = {p.data_ptr() for p in adapted.model.parameters() if p.requires_grad}
    mine = {
        p.data_ptr() for weights in adapted.adapters.values() for p in weights.parameters.values()
    }
    assert set(adapted.adapters) == {"one", "three"}
    assert trained == mine


def test_parameters_and_gradients_are_views_of_the_flat_tensors() -> None:
    weights = adapted_model("gpt2").add("one", LoraConfig(task_type="CAUSAL_LM"), seed=0)
    weights.values.fill_(2.0)
    weights.gradients.fill_(3.0)
    for parameter in weights.parameters.values():
        assert (parameter == 2.0).all()
        assert parameter.grad is not None
        assert (parameter.grad == 3.0).all()


def test_the_start_depends_on_the_seed_alone_and_moves_no_global_state() -> None:
    starts = []
    for global_seed, seed in ((1, 7), (2, 7), (1, 8)):
        adapted = adapted_model("gpt2")
        torch.manual_seed(global_seed)
        state = torch.get_rng_state()
        starts.append(adapted.add("one", LoraConfig(task_type="CAUSAL_LM"), seed=seed))
        assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(starts[0].values, starts[1].values)
    assert not torch.equal(starts[0].values, starts[2].values)
    for name, parameter in starts[0].parameters.items():
        if ".lora_A." in name:
            # PEFT's own: uniform, as kaiming_uniform with a = sqrt 5 gives.
            assert 0.9 < parameter.abs().max() * parameter.shape[1] ** 0.5 <= 1
        else:
            assert not parameter.any()


@pytest.mark.parametrize("family", FAMILIES)
def test_without_a_routing_no_adapter_has_an_effect(family: str) -> None:
    adapted = adapted_model(family)
    ids = torch.arange(6).unsqueeze(0)
    before = adapted.model(input_ids=ids).logits
    adapted.add("one", LoraConfig(task_type="CAUSAL_LM"), seed=0).values.fill_(0.5)
    torch.testing.assert_close(adapted.model(input_ids=ids).logits, before)


class Picked(nn.Module):
    """A part of a model that sees the tokens that it picks, as an expert does."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = x.flatten(0, 1)
        (picked,) = (flat[:, 0] > flat[:, 0].median()).nonzero(as_tuple=True)
        return torch.zeros_like(flat).index_copy(0, picked, self.inner(flat[picked])).view_as(x)


def test_a_module_that_sees_picked_tokens_is_refused_by_name_and_leaves_the_others() -> None:
    adapted = adapted_model("llama")
    layers: Any = adapted.model.get_submodule("model.layers")
    layers[0].mlp = Picked(layers[0].mlp)
    config = LoraConfig(task_type="CAUSAL_LM", target_modules=["q_proj", "inner.up_proj"])
    with pytest.raises(InputError, match=r"target_modules: .*mlp.inner.up_proj sees tokens picked"):
        adapted.add("one", config, seed=0)
    # Attention sees whole rows, and so does the other layer's own.
    targets = ["q_proj", "layers.1.mlp.up_proj"]
    adapted.add("two", LoraConfig(task_type="CAUSAL_LM", target_modules=targets), seed=0)
    routing = Routing((Segment("two", 0, 2),), torch.zeros(2, dtype=torch.int64), 3)
    with adapted.routing_context.active(routing):
        adapted.model(input_ids=torch.arange(6).view(2, 3))


def test_an_adapter_that_memory_does_not_hold_leaves_nothing_behind() -> None:
    adapted = adapted_model("llama")
    huge = LoraConfig(task_type="CAUSAL_LM", r=10**13)
    for kept in ("one", "two"):
        with pytest.raises(RuntimeError, match="can't allocate memory"):
            adapted.add("huge", huge, seed=0)
        assert not [key for key, _ in adapted.model.named_parameters() if ".huge." in key]
        weights = adapted.add(kept, LoraConfig(task_type="CAUSAL_LM"), seed=0)
        assert all(parameter.requires_grad for parameter in weights.parameters.values())
        layers = [one for one in adapted.model.modules() if isinstance(one, MultiLoraLinear)]
        assert all("huge" not in {*layer.r, *layer.lora_dropout} for layer in layers)


def test_a_batch_of_other_rows_than_the_routing_is_refused() -> None:
    adapted = adapted_model("gpt2")
    adapted.add("one", LoraConfig(task_type="CAUSAL_LM"), seed=0)
    routing = Routing((Segment("one", 0, 2),), torch.zeros(2, dtype=torch.int64), 4)
    with (
        adapted.routing_context.active(routing),
        pytest.raises(ValueError, match="expected modules that see whole rows"),
    ):
        adapted.model(input_ids=torch.zeros(3, 4, dtype=torch.int64))
    assert adapted.routing_context.routing is None


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"use_dora": True}, "DoRA"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"rank_pattern": {"c_attn": 3}}, "ranks by module"),
        ({"bias": "all"}, "bias"),
        ({"init_lora_weights": "gaussian"}, "init_lora_weights"),
        ({"lora_bias": True}, "biases"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_is_not_computed_is_refused_by_name(options: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        check_config(LoraConfig(task_type="CAUSAL_LM", **options))


def test_segments_must_cover_their_rows() -> None:
    keys = torch.zeros(3, dtype=torch.int64)
    for segments in (
        (Segment("a", 0, 2),),
        (Segment("a", 0, 1), Segment("b", 2, 3)),
        (Segment("a", 0, 3), Segment("b", 3, 3)),
    ):
        with pytest.raises(ValueError, match="do not cover"):
            Routing(segments, keys, 4)


@torch.no_grad()
def test_the_scale_of_an_adapter_is_exact_on_a_base_in_bfloat16() -> None:
    torch.manual_seed(0)
    adapted = AdaptedModel(build_model("llama").bfloat16().requires_grad_(False), LoopBackend())
    # 16 / 12 is 0.2% more in bfloat16.
    adapted.add("one", LoraConfig(task_type="CAUSAL_LM", r=12, lora_alpha=16), seed=0)
    layer = next(m for m in adapted.model.modules() if isinstance(m, MultiLoraLinear))
    layer.get_base_layer().weight.zero_()
    lora_a, lora_b = layer.lora_A["one"].weight, layer.lora_B["one"].weight.normal_()
    x = torch.randn(4, 64, 32).bfloat16()
    with adapted.routing_context.active(Routing((Segment("one", 0, 4),), torch.zeros(4), 64)):
        y = layer(x).double()
    a, b = lora_a.bfloat16().double(), lora_b.bfloat16().double()
    expected = 16 / 12 * x.double() @ a.t() @ b.t()
    # Roundings of single numbers cancel, an error of the scale does not.
    assert (y * expected).sum() / expected.square().sum() == pytest.approx(1, abs=5e-4)
