"""A fake CUDA device: tensors with a device, type and shape, but no values.

An operation on tensors of two devices, or of types or shapes that do not fit, fails as on a GPU.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from triton.runtime.interpreter import InterpretedFunction

from auctune.train.base import Base
from support.small_bases import build_model, build_tokenizer

CUDA = torch.device("cuda:0")
# Names of the Triton kernels that were launched; on this device they compute nothing.
launched: list[str] = []


class _Mode(FakeTensorMode):  # type: ignore[no-untyped-call]
    """A mode that a copy of a tensor shares; two would free the same memory of C++."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Mode":
        return self


class _Values(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Answers what a tensor without values cannot: numbers are 0, and like tensors are equal."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default:
            return 0.0 if args[0].is_floating_point() else 0
        if func is torch.ops.aten.equal.default:
            first, second = args
            return (first.shape, first.dtype) == (second.shape, second.dtype)
        kwargs = dict(kwargs or {})
        if kwargs.get("device") == torch.device("meta"):
            # C++ makes a tensor where it takes another one to be.
            kwargs["device"] = CUDA
        return func(*args, **kwargs)


def _apply(module: nn.Module, move: Callable[[Tensor], Tensor]) -> nn.Module:
    """`nn.Module._apply`, but torch's own would exchange the contents of fake tensors."""
    for child in module.children():
        _apply(child, move)
    for name, parameter in module._parameters.items():
        if parameter is not None:
            moved = nn.Parameter(move(parameter.detach()), parameter.requires_grad)
            module._parameters[name] = moved
    for name, buffer in module._buffers.items():
        if buffer is not None:
            module._buffers[name] = move(buffer)
    return module


def _launch(kernel: InterpretedFunction[Any], *_: Any, **__: Any) -> None:
    launched.append(kernel.__name__)


@contextmanager
def fake_cuda(capability: tuple[int, int] = (9, 0)) -> Iterator[None]:
    """Let tensors be fake, on the CPU and on a GPU of a compute capability."""
    mode = _Mode(allow_non_fake_inputs=True)
    make = torch.Tensor._make_subclass

    def make_subclass(*args: Any, dispatch_device: bool = False, **options: Any) -> Any:
        # C++ would look for a runtime of the device, which a build for CPUs does not have.
        return make(*args, **options)

    state = torch.zeros(0)
    with (
        warnings.catch_warnings(),
        mock.patch.object(torch.Tensor, "_make_subclass", staticmethod(make_subclass)),
        mock.patch.object(nn.Module, "_apply", _apply),
        mock.patch.object(torch.cuda, "get_device_capability", return_value=capability),
        mock.patch.object(torch.cuda, "get_rng_state", return_value=state),
        mock.patch.object(torch.cuda, "set_rng_state"),
        mock.patch.object(torch.cuda, "synchronize"),
        mock.patch.object(InterpretedFunction, "run", _launch),
        mode,
        _Values(),  # type: ignore[no-untyped-call]
    ):
        # Copies of modules ask for it, and go another way for tensors without data.
        warnings.filterwarnings("ignore", "Accessing the data pointer of FakeTensor", UserWarning)
        yield


def fake_base(
    family: str = "llama", dtype: torch.dtype = torch.bfloat16, num_layers: int = 2
) -> Base:
    """Return a small base on the fake device; to be called within `fake_cuda`."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with CUDA:
            model = build_model(family, num_layers=num_layers).requires_grad_(False)
    finally:
        torch.set_default_dtype(before)
    return Base(
        name=family,
        source="nowhere",
        model=model,
        tokenizer=build_tokenizer(),
        digest="digest",
        architecture="architecture",
        device=CUDA,
        dtype=dtype,
        load_seconds=0.0,
        _untouched=model,
    )
