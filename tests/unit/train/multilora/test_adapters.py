import copy
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import nn

from auctune.domain.errors import InputError
from auctune.train.adapter_files import PREFIX
from auctune.train.multilora.adapters import AdaptedModel, check_config
from auctune.train.multilora.plan import PassProducts, Routing
from auctune.train.multilora.segment_backends import LoopBackend
from auctune.train.multilora.slots import cast
from auctune.train.multilora.transfer import to_device
from auctune.train.multilora.weights import AdapterWeights
from support.small_bases import FAMILIES, build_model


def adapted_model(family: str, dtype: torch.dtype = torch.float32) -> AdaptedModel:
    torch.manual_seed(0)
    model = build_model(family).to(dtype)
    model.requires_grad_(False).train(False)
    return AdaptedModel(model, LoopBackend())


def products(
    adapted: AdaptedModel, segments: list[tuple[AdapterWeights, int, int]], num_tokens: int
) -> PassProducts:
    table = [(first, end, adapted.adapters.slot(one.name)) for one, first, end in segments]
    routing = Routing(adapted.adapters, np.array(table, np.int32), num_tokens)
    tensors = to_device(adapted.backend.arrays(routing), torch.device("cpu"))
    return adapted.backend.products(routing, tensors)


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
@pytest.mark.filterwarnings("ignore:fan_in_fan_out is set:UserWarning")
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("targets", [None, "all-linear", ["c_fc", "up_proj", "q_proj"]])
def test_an_adapter_is_where_peft_puts_its_own(family: str, targets: Any) -> None:
    config = LoraConfig(task_type="CAUSAL_LM", r=3, target_modules=targets)
    peft = get_peft_model(build_model(family), copy.deepcopy(config))
    expected = {
        name.removeprefix(PREFIX).replace(".default.", "."): tuple(parameter.shape)
        for name, parameter in peft.named_parameters()
        if ".lora_" in name
    }
    adapter = adapted_model(family).add("one", config, seed=0)
    assert list(adapter.shapes.items()) == list(expected.items())
    assert set(adapter.config.target_modules or ()) == set(
        peft.peft_config["default"].target_modules or ()
    )


def test_nothing_of_a_base_trains() -> None:
    adapted = adapted_model("llama")
    for name, targets in (("one", ["q_proj"]), ("two", ["q_proj", "up_proj"]), ("three", None)):
        adapted.add(name, LoraConfig(task_type="CAUSAL_LM", target_modules=targets), seed=0)
    adapted.remove("two")
    assert set(adapted.adapters) == {"one", "three"}
    assert not any(parameter.requires_grad for parameter in adapted.model.parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_a_layer_takes_are_views_of_the_flat_tensors(dtype: torch.dtype) -> None:
    adapter = adapted_model("gpt2", dtype).add("one", LoraConfig(task_type="CAUSAL_LM"), seed=0)
    adapter.values.fill_(2.0)
    adapter.gradients.fill_(3.0)
    cast([adapter])
    assert (adapter.compute is adapter.values) == (dtype is torch.float32)
    for a, b, grad_a, grad_b in adapter.layers.values():
        assert a.dtype is b.dtype is dtype
        assert (a == 2.0).all()
        assert (b == 2.0).all()
        assert (grad_a == 3.0).all()
        assert (grad_b == 3.0).all()


def test_an_adapter_that_does_not_train_has_its_values_in_the_type_of_passes_alone() -> None:
    adapted = adapted_model("llama", torch.bfloat16)
    adapter = adapted.add("one", LoraConfig(task_type="CAUSAL_LM"), seed=0, trains=False)
    assert adapter.values is adapter.compute
    assert adapter.values.dtype is torch.bfloat16
    assert not adapter.gradients.numel()


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
    for name, values in starts[0].named(starts[0].values).items():
        if ".lora_A." in name:
            # PEFT's own: uniform, as kaiming_uniform with a = sqrt 5 gives.
            assert 0.9 < values.abs().max() * values.shape[1] ** 0.5 <= 1
        else:
            assert not values.any()


@pytest.mark.parametrize("family", FAMILIES)
def test_without_a_plan_no_adapter_has_an_effect(family: str) -> None:
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
    two = adapted.add("two", LoraConfig(task_type="CAUSAL_LM", target_modules=targets), seed=0)
    with adapted.context.active(products(adapted, [(two, 0, 6)], 6)):
        adapted.model(input_ids=torch.arange(6).view(2, 3))


def test_an_adapter_that_memory_does_not_hold_leaves_nothing_behind() -> None:
    adapted = adapted_model("llama")
    huge = LoraConfig(task_type="CAUSAL_LM", r=10**13)
    for kept in ("one", "two"):
        with pytest.raises(RuntimeError, match="can't allocate memory"):
            adapted.add("huge", huge, seed=0)
        adapted.add(kept, LoraConfig(task_type="CAUSAL_LM"), seed=0)
    assert set(adapted.adapters) == {"one", "two"}


def test_a_pass_over_other_tokens_than_its_plan_is_refused() -> None:
    adapted = adapted_model("gpt2")
    one = adapted.add("one", LoraConfig(task_type="CAUSAL_LM"), seed=0)
    with (
        adapted.context.active(products(adapted, [(one, 0, 8)], 8)),
        pytest.raises(ValueError, match="expected modules that see whole rows"),
    ):
        adapted.model(input_ids=torch.zeros(3, 4, dtype=torch.int64))
    assert adapted.context.products is None


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


def test_segments_must_lie_one_after_the_other() -> None:
    adapted = adapted_model("gpt2")
    one = adapted.add("one", LoraConfig(task_type="CAUSAL_LM"), seed=0)
    for places in (((0, 2), (1, 3)), ((0, 4),), ((0, 1), (2, 2))):
        with pytest.raises(ValueError, match="one after the other in 3 tokens"):
            products(adapted, [(one, *place) for place in places], 3)


def test_tokens_of_no_adapter_are_the_bases_alone() -> None:
    adapted = adapted_model("llama")
    one = adapted.add("one", LoraConfig(task_type="CAUSAL_LM"), seed=0)
    one.values.fill_(0.5)
    ids = torch.arange(12).view(3, 4)
    expected = adapted.model(input_ids=ids).logits
    with adapted.context.active(products(adapted, [(one, 4, 8)], 12)):
        found = adapted.model(input_ids=ids).logits
    torch.testing.assert_close(found[[0, 2]], expected[[0, 2]])
    assert not torch.isclose(found[1], expected[1], atol=1e-3).all(-1).any()


@torch.no_grad()
def test_the_scale_of_an_adapter_is_exact_on_a_base_in_bfloat16() -> None:
    torch.manual_seed(0)
    adapted = AdaptedModel(build_model("llama").bfloat16().requires_grad_(False), LoopBackend())
    # 16 / 12 is 0.2% more in bfloat16.
    one = adapted.add("one", LoraConfig(task_type="CAUSAL_LM", r=12, lora_alpha=16), seed=0)
    key, (lora_a, lora_b, *_) = next(iter(one.layers.items()))
    layer = adapted.model.get_submodule(key)
    layer.weight.zero_()
    one.values.normal_()
    cast([one])
    x = torch.randn(4, 64, 32).bfloat16()
    with adapted.context.active(products(adapted, [(one, 0, 256)], 256)):
        y = layer(x).double()
    a, b = lora_a.double(), lora_b.double()
    expected = 16 / 12 * x.double() @ a.t() @ b.t()
    # Roundings of single numbers cancel, an error of the scale does not.
    assert (y * expected).sum() / expected.square().sum() == pytest.approx(1, abs=5e-4)
