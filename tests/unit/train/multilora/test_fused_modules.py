"""Fused modules against those of transformers: interpreted on a CPU, compiled on a GPU."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from auctune.train.multilora import fused_modules
from auctune.train.multilora.fused_modules import FusedRmsNorm, FusedSwiGlu, fuse_modules
from support.small_bases import build_model

on_each_device = pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
)
ROOT = Path(__file__).parents[4]
KERNELS = ("_rms_norm", "_rms_norm_backward", "_swiglu", "_swiglu_backward", "_rotary")


class Operations(TorchDispatchMode):
    """Counts operations of torch, without those of the interpreter of kernels, and launches."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts: Counter[str] = Counter()
        for name in KERNELS:
            launch = CountedLaunch(getattr(fused_modules, name), name, self.counts)
            monkeypatch.setattr(fused_modules, name, launch)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        # Views and memory are no launches.
        if not func.is_view and not func.overloadpacket.__name__.startswith("empty"):
            self.counts[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))


class CountedLaunch:
    """A kernel that counts its launches."""

    def __init__(self, kernel: Any, name: str, counts: Counter[str]) -> None:
        self.kernel, self.name, self.counts = kernel, name, counts

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def launch(*arguments: Any, **options: Any) -> None:
            self.counts[self.name] += 1
            with _disable_current_modes():
                self.kernel[grid](*arguments, **options)

        return launch


def small_llama(device: str, dtype: torch.dtype = torch.float32) -> Any:
    torch.manual_seed(1)
    model: Any = build_model("llama").requires_grad_(False).to(device, dtype)
    for module in model.modules():
        if isinstance(module, LlamaRMSNorm):
            nn.init.normal_(module.weight, 1.0, 0.3)
    return model


def logits_and_gradient(model: Any, device: str, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(1, 3, 32, generator=generator).to(device, dtype).requires_grad_()
    logits = model(inputs_embeds=x, use_cache=False).logits
    logits.float().square().sum().backward()
    assert x.grad is not None
    return logits.detach(), x.grad


@on_each_device
def test_a_model_computes_the_same_but_for_rounding(device: str) -> None:
    model = small_llama(device)
    names = list(model.state_dict())
    expected = logits_and_gradient(model, device, torch.float32)
    # Two norms, a gated activation and attention a layer, and the last norm.
    assert fuse_modules(model) == 9
    assert fuse_modules(model) == 0
    assert list(model.state_dict()) == names
    found = logits_and_gradient(model, device, torch.float32)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5 * float(other.abs().max()))


@on_each_device
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_small_types_are_computed_in_float32(device: str, dtype: torch.dtype) -> None:
    model = small_llama(device, dtype)
    expected = logits_and_gradient(small_llama(device).double(), device, torch.float64)
    assert fuse_modules(model) == 9
    for one, other in zip(logits_and_gradient(model, device, dtype), expected, strict=True):
        error = (one.double() - other).abs().max() / other.abs().max()
        assert error <= 16 * torch.finfo(dtype).eps


def test_gradients_of_any_layout_are_right() -> None:
    norm = LlamaRMSNorm(12, eps=1e-6).requires_grad_(False)
    x = torch.randn(12, 5).t().requires_grad_()
    expected = torch.autograd.grad(norm(x).sum(), x)[0]
    assert fuse_modules(norm) == 1
    torch.testing.assert_close(torch.autograd.grad(norm(x).sum(), x)[0], expected)


def test_layers_have_few_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_llama("cpu")
    operations = Operations(monkeypatch)
    with operations:
        logits_and_gradient(model, "cpu", torch.float32)
    before = operations.counts.total()
    fuse_modules(model)
    operations.counts.clear()
    with operations:
        logits_and_gradient(model, "cpu", torch.float32)
    counts = operations.counts
    assert [counts[name] for name in KERNELS] == [5, 5, 2, 2, 8]
    # Of 5 norms at least 10 operations each, of 2 activations 3, and of 4 rotations 10.
    assert counts.total() <= before - 96


@pytest.mark.parametrize("kind", ["llama", "qwen3", "gpt_neox", "cohere"])
def test_attention_of_other_models_computes_the_same_or_stays(kind: str) -> None:
    config = AutoConfig.for_model(
        kind, vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=1,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=64,
        bos_token_id=0, eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).requires_grad_(False)
    expected = logits_and_gradient(model, "cpu", torch.float32)
    fuse_modules(model)
    is_fused = any(
        type(one).__name__.endswith("Attention") and "Fused" in type(one).__name__
        for one in model.modules()
    )
    # Cohere rotates pairs of neighbours. GPT-NeoX rotates a part of a head, by its own function.
    assert is_fused == (kind != "cohere")
    for one, other in zip(logits_and_gradient(model, "cpu", torch.float32), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5 * float(other.abs().max()))


def test_what_computes_something_else_stays_as_it_is() -> None:
    norms: Any = nn.Sequential(GemmaRMSNorm(12, eps=1e-6), LlamaRMSNorm(12, eps=1e-6))
    for norm in norms:
        nn.init.normal_(norm.weight, 1.0, 0.3)
    x = torch.randn(5, 12)
    expected = norms(x)
    assert fuse_modules(norms.requires_grad_(False)) == 1
    assert [type(norm) for norm in norms] == [GemmaRMSNorm, FusedRmsNorm]
    torch.testing.assert_close(norms(x), expected)
    model: Any = build_model("llama").requires_grad_(False)
    for layer in model.model.layers:
        layer.mlp.act_fn = nn.GELU()
    fuse_modules(model)
    assert not any(isinstance(module, FusedSwiGlu) for module in model.modules())


COMPILE = f"""
import torch
from auctune.train.multilora import fused_modules
from support.h100_compiler import compile_for_h100

compile_for_h100(fused_modules, {KERNELS})
for size in (896, 4096):
    x, weight = torch.ones(4, size, dtype=torch.bfloat16).requires_grad_(), torch.ones(size)
    fused_modules._RmsNorm.apply(x, weight.bfloat16(), 1e-6).sum().backward()
    fused_modules._SwiGlu.apply(x, x).sum().backward()
    heads = x.view(1, 4, -1, 128).transpose(1, 2)
    angles = torch.ones(1, 4, 128, dtype=torch.bfloat16)
    fused_modules._Rotary.apply(heads, angles, angles).sum().backward()
"""


@pytest.mark.slow
def test_kernels_compile_for_an_h100_with_wide_loads() -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "0", "PYTHONPATH": "src:tests"}
    command = [sys.executable, "-c", COMPILE]
    ended = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    launches = [line.split() for line in ended.stdout.splitlines()]
    assert Counter(launch[0] for launch in launches) == {**dict.fromkeys(KERNELS, 2), "_rotary": 4}
    assert all(loads_of_2_bytes == "0" for _, loads_of_2_bytes, _ in launches)
