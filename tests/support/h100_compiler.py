"""Triton's compiler for an H100 on a machine without one: a launch compiles, and runs nothing.

For a process of its own, in which TRITON_INTERPRET is not set.
"""

from types import ModuleType
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.runtime import driver


class _Driver:
    def get_current_target(self) -> Any:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, _device: int) -> int:
        return 0


class CompiledKernel:
    """A kernel whose launches are compiled, and printed: name, 2-byte and asynchronous loads."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def launch(*arguments: Any, **options: Any) -> None:
            code = self.kernel.warmup(*arguments, grid=grid, **options).asm["ptx"]
            print(self.kernel.__name__, code.count("ld.global.b16"), code.count("cp.async.cg"))

        return launch

    @property
    def num_variants(self) -> int:
        """How often the kernel was compiled."""
        return len(self.kernel.device_caches[0][0])


def compile_for_h100(module: ModuleType, names: tuple[str, ...]) -> list[CompiledKernel]:
    """Let launches of a module's kernels compile them; return the kernels."""
    driver.set_active(_Driver())
    kernels = [CompiledKernel(getattr(module, name)) for name in names]
    for name, kernel in zip(names, kernels, strict=True):
        setattr(module, name, kernel)
    return kernels
