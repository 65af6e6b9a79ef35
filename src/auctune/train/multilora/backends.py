"""Products of the tokens of a pass with the matrices of their own adapters.

The N tokens of a pass are cut into segments; segment i, tokens first_i <= n < last_i, has an
adapter of rank r_i with matrices A_i [r_i, in] and B_i [out, r_i] on the layer. With x_n the input
of token n, g_n the gradient of its output y_n, m_n its dropout mask, and s_n its adapter's scale,
times the keep scale of dropout:

    forward:    h_n = s_n A_i (x_n * m_n)              y_n += B_i h_n
    backward:   e_n = s_n B_i^T g_n                    gradient of x_n += (A_i^T e_n) * m_n
                gradient of A_i += sum e_n (x_n * m_n)^T
                gradient of B_i += sum g_n h_n^T

where sums are over the tokens of segment i. Ranks may differ.

| backend | how | where it pays |
| --- | --- | --- |
| triton | kernels that read all adapters' matrices where they are | CUDA; any ranks and lengths |
| grouped | torch's grouped_mm | CUDA in bfloat16, compute capability 9.x or 10.x; any lengths |
| bmm | batched products over stacked, padded matrices | many short segments, equally long |
| loop | matrix products a segment | any device; few or long segments |
"""

from collections.abc import Hashable, Sequence
from importlib.util import find_spec
from typing import Any, Protocol

import torch
from numpy.typing import NDArray
from torch import Tensor

from auctune.domain.errors import InputError
from auctune.train.multilora.plan import PassProducts, Routing
from auctune.train.multilora.segment_backends import (
    BmmBackend,
    GroupedBackend,
    LoopBackend,
    grouped_obstacle,
)


class Backend(Protocol):
    """Implementation of the products of one model; see the module's formulas."""

    name: str

    def arrays(self, routing: Routing) -> list[NDArray[Any]]:
        """Return what the products of a pass need to have on the device."""

    def products(self, routing: Routing, tensors: Sequence[Tensor]) -> PassProducts:
        """Return the products of a pass.

        Args:
            routing: of its tokens.
            tensors: those of `arrays`, on the device.
        """

    def graph_key(self, routing: Routing) -> Hashable | None:
        """Return what launches depend on beside the sizes of tables; `None`: on more than that.

        Passes of equal keys and sizes are captured once.
        """


def choose_backend(name: str, device: torch.device, dtype: torch.dtype) -> Backend:
    """Return the backend of that name; "auto" is the one that is fastest here.

    Raises:
        InputError: if the name is unknown, or the backend cannot run on this device.
    """
    if name == "loop":
        return LoopBackend()
    if name == "bmm":
        return BmmBackend()
    obstacles = {"triton": triton_obstacle, "grouped": grouped_obstacle}
    if name in obstacles:
        if obstacle := obstacles[name](device, dtype):
            raise InputError("backend", f"{name!r} cannot be used: {obstacle}", "another backend")
        return _triton(device) if name == "triton" else GroupedBackend()
    if name != "auto":
        raise InputError("backend", f"{name!r}", "auto, triton, grouped, bmm or loop")
    # A CPU has no launches to save, so stacking only costs copies there.
    if device.type == "cpu":
        return LoopBackend()
    if not triton_obstacle(device, dtype):
        return _triton(device)
    return BmmBackend() if grouped_obstacle(device, dtype) else GroupedBackend()


def _triton(device: torch.device) -> Backend:
    # Builds of torch for CPUs come without triton.
    from auctune.train.multilora.triton_backend import TritonBackend

    return TritonBackend(device)


def triton_obstacle(device: torch.device, dtype: torch.dtype) -> str:
    """Return why the Triton kernels cannot be used here; empty if they can.

    They are tried once: what a release of triton or a driver makes of them is not known before.
    """
    if find_spec("triton") is None:
        return "triton is not installed"
    from auctune.train.multilora.triton_kernels import INTERPRETED

    if device.type == "cpu":
        return "" if INTERPRETED else "the device is cpu, Triton kernels need CUDA"
    capability = torch.cuda.get_device_capability(device)
    if capability < (8, 0):
        found = f"{device} has compute capability {capability[0]}.{capability[1]}"
        return f"{found}, Triton kernels need 8.0"
    from auctune.train.multilora.triton_backend import failure

    return failure(device, dtype)
