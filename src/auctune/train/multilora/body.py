"""The layers of a model below its output layer, over the tokens of a pass.

A pass over few tokens takes a GPU less time than the processor needs to launch it. So passes of up
to 4,096 packed tokens are captured as CUDA graphs, one forward and one backward, which the
processor starts as a whole. Graphs have fixed sizes and places in memory: tokens are filled up to
one of eight sizes for each power of two, and rows, their lengths and segments to powers of two, and
what a pass needs is written to where its graph reads it. Sizes that come up for the third time are
captured; one that had to give way to others, less soon. What a graph computes is compared once with
the same pass without it; where it differs, or cannot be captured, passes go on without graphs, and
the reason is logged. Memory that runs out takes graphs away for a while.
"""

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from auctune.train.multilora.adapters import AdaptedModel
from auctune.train.multilora.attention import PackedRows
from auctune.train.multilora.plan import PassProducts, Routing, TokenKeys
from auctune.train.multilora.transfer import to_device, write_buffer

_log = logging.getLogger(__name__)

MAX_GRAPH_TOKENS = 4096
_MAX_GRAPHS = 8
USES_BEFORE_CAPTURE = 3
_PASSES_WITHOUT = 1000  # after memory ran out
# Kernels of attention add up gradients in any order.
_ROUNDING = 0.02


@dataclass(frozen=True)
class TokenStream:
    """Tokens of a pass, on the host.

    Attributes:
        ids, positions: int64 [1, N], rows one after the other, or [rows, width]; places in rows.
        lengths: of packed rows; `None`: rows are padded.
        routing: of the N tokens.
        longest: no row is longer; in a filled stream a power of two.
    """

    ids: NDArray[np.int64]
    positions: NDArray[np.int64]
    lengths: tuple[int, ...] | None
    routing: Routing
    longest: int

    def arrays(self) -> list[NDArray[Any]]:
        """Return what a pass needs on the device, beside the backend's."""
        ends = np.array([0, *accumulate(self.lengths or ())], np.int32)
        return [self.ids, self.positions, ends]

    def filled(self) -> "TokenStream":
        """Return a stream of one of a few sizes; the tokens that fill it up have no adapter.

        They are in rows of their own, and change nothing that other tokens come to but rounding.
        """
        assert self.lengths is not None
        routing, count = self.routing, self.routing.num_tokens
        longest, total = _power_of_two(self.longest), _size(count)
        rest = total - count
        rows = [*self.lengths, *[longest] * (rest // longest), rest % longest]
        rows += [0] * (_power_of_two(len(rows)) - len(rows))

        def fill(values: NDArray[np.int64]) -> NDArray[np.int64]:
            return np.append(values, np.zeros(rest, values.dtype))

        keys = routing.keys
        return TokenStream(
            fill(self.ids[0])[None],
            fill(self.positions[0])[None],
            tuple(rows),
            replace(
                routing,
                num_tokens=total,
                keys=None if keys is None else TokenKeys(fill(keys.row), fill(keys.position)),
                max_segments=_power_of_two(len(routing.segments)),
            ),
            longest,
        )


def _power_of_two(number: int) -> int:
    """Return the smallest power of two that is not smaller."""
    return 1 << max(0, number - 1).bit_length()


def _size(num_tokens: int) -> int:
    """Return the next of the sizes of which there are eight for each power of two."""
    step = max(16, _power_of_two(num_tokens) // 16)
    return -(-num_tokens // step) * step


@dataclass(frozen=True)
class BodyPass:
    """A pass that is ready to run.

    Attributes:
        products: with adapters; to be active in the model's context.
        inputs: of the model.
        hidden: called within, returns the last hidden states [1, N, D] or [rows, width, D].
    """

    products: PassProducts
    inputs: dict[str, Any]
    hidden: Callable[[], Tensor]


class Body:
    """Runs the layers of a model below its output layer.

    Args:
        adapted: the model.
        uses_graphs: whether passes that train may be captured.
    """

    def __init__(self, adapted: AdaptedModel, *, uses_graphs: bool) -> None:
        self._adapted = adapted
        self._device = adapted.device
        self._uses_graphs = uses_graphs
        self._uses: Counter[Hashable] = Counter()
        # Uses that a size needs that was captured before.
        self._needed: dict[Hashable, int] = {}
        self._passes_without = 0
        self._graphs: OrderedDict[Hashable, _Graph] = OrderedDict()
        self._pool: Any = None

    @property
    def num_graphs(self) -> int:
        """Graphs that are kept."""
        return len(self._graphs)

    def prepare(self, stream: TokenStream) -> BodyPass:
        """Bring to the device what a pass needs."""
        if self._passes_without:
            self._passes_without -= 1
        elif self._uses_graphs and torch.is_grad_enabled() and stream.lengths is not None:
            found = self._prepare_graph(stream)
            if found is not None:
                return found
        return self._eager(stream, partial(to_device, device=self._device))

    def release(self) -> bool:
        """Give up all graphs for a while, for their memory; return whether there were any."""
        had_any = bool(self._graphs)
        self._graphs.clear()
        self._uses.clear()
        self._pool = None
        self._passes_without = _PASSES_WITHOUT
        return had_any

    def _eager(
        self, stream: TokenStream, transfer: Callable[[list[NDArray[Any]]], list[Tensor]]
    ) -> BodyPass:
        backend, arrays = self._adapted.backend, stream.arrays()
        ids, positions, ends, *tensors = transfer([*arrays, *backend.arrays(stream.routing)])
        inputs: dict[str, Any] = {"input_ids": ids, "use_cache": False}
        if stream.lengths is not None:
            rows = PackedRows(stream.lengths, ends, stream.longest)
            inputs |= {"position_ids": positions, "packed_rows": rows}
        products = backend.products(stream.routing, tensors)
        return BodyPass(products, inputs, partial(self._run, inputs))

    def _run(self, inputs: dict[str, Any]) -> Tensor:
        hidden: Tensor = self._adapted.model.base_model(**inputs).last_hidden_state
        return hidden

    def _prepare_graph(self, stream: TokenStream) -> BodyPass | None:
        """Return a pass by a graph, if there is one for its sizes."""
        backend = self._adapted.backend
        if _size(stream.routing.num_tokens) > MAX_GRAPH_TOKENS:
            return None
        launches = backend.graph_key(stream.routing)
        if launches is None:
            return None
        filled = stream.filled()
        routing = filled.routing
        sizes = (len(filled.lengths or ()), filled.longest, routing.max_segments, routing.drops)
        key = (routing.num_tokens, *sizes, launches)
        graph = self._graphs.get(key)
        if graph is None:
            self._uses[key] += 1
            if self._uses[key] < self._needed.get(key, USES_BEFORE_CAPTURE):
                return None
            self._uses[key] = 0
            graph = self._captured(filled)
            if graph is None:
                return None
            self._graphs[key] = graph
            # A capture takes far longer than it saves in a pass.
            self._needed[key] = 8 * self._needed.get(key, USES_BEFORE_CAPTURE)
            if len(self._graphs) > _MAX_GRAPHS:
                self._graphs.popitem(last=False)
        self._graphs.move_to_end(key)
        graph.write([*filled.arrays(), *backend.arrays(routing)])
        return BodyPass(graph.products, graph.inputs, graph.hidden)

    def _captured(self, stream: TokenStream) -> "_Graph | None":
        """Return a graph of passes like this one, or give up graphs if that fails."""
        adapters = [self._adapted.adapters.by_slot[slot] for slot in stream.routing.slots]
        flat = [one.gradients for one in adapters if one is not None]
        before = [one.clone() for one in flat]
        cuda_stream = torch.cuda.current_stream() if torch.cuda.is_available() else None
        try:
            graph, reason = self._try(stream, flat)
        # What a driver or a model raises while it is captured is of any type.
        except Exception as error:
            graph = None
            reason = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
        finally:
            if cuda_stream is not None:
                # A capture that fails may leave its own in place.
                torch.cuda.set_stream(cuda_stream)
            for one, old in zip(flat, before, strict=True):
                one.copy_(old)
        if reason:
            _log.warning("passes run without CUDA graphs: %s", reason)
            self.release()
            self._uses_graphs = False
        return graph

    def _try(self, stream: TokenStream, flat: Sequence[Tensor]) -> tuple["_Graph | None", str]:
        """Return a graph, or why none can be used; neither, if this pass does not tell.

        Args:
            stream: of the pass.
            flat: gradients of its adapters; both passes that are compared add to them.
        """
        graph = _Graph(self._adapted, self._eager, stream)
        # It compiles kernels too, which must not happen within a capture.
        gradient, *expected = graph.results(flat)
        if graph.knows_lengths:
            return None, "attention is computed row by row on this device"
        if not all(bool(one.isfinite().all()) for one in expected):
            # An adapter has diverged: no values can be compared.
            return None, ""
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        graph.capture(self._pool)
        reason = _difference(graph.results(flat, gradient), [gradient, *expected])
        return (None, reason) if reason else (graph, "")


class _Graph:
    """One forward and one backward pass over streams of equal sizes.

    Attributes:
        products, inputs: as of `BodyPass`, where the graph reads them.
    """

    def __init__(
        self, adapted: AdaptedModel, prepare: Callable[..., BodyPass], stream: TokenStream
    ) -> None:
        self._context = adapted.context

        def transfer(arrays: list[NDArray[Any]]) -> list[Tensor]:
            self._buffer, tensors = write_buffer(arrays, adapted.device)
            return tensors

        self._eager = prepare(stream, transfer)
        self.products, self.inputs = self._eager.products, self._eager.inputs
        self._graphs: tuple[torch.cuda.CUDAGraph, torch.cuda.CUDAGraph] | None = None
        self._hidden = self._gradient = torch.empty(0)

    @property
    def knows_lengths(self) -> bool:
        """Return whether the pass depended on the lengths of rows by more than where they end."""
        return "runs" in vars(self.inputs["packed_rows"])

    def capture(self, pool: Any) -> None:
        """Capture both passes, in memory of a pool that graphs share, as one runs at a time."""
        self._graphs = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        # Other threads of the process may use the device meanwhile.
        options = {"pool": pool, "capture_error_mode": "thread_local"}
        with self._context.active(self.products):
            with torch.cuda.graph(self._graphs[0], **options):
                hidden = self._eager.hidden()
            self._hidden = hidden.detach()
            self._gradient = torch.zeros_like(self._hidden)
            with torch.cuda.graph(self._graphs[1], **options):
                torch.autograd.backward(hidden, self._gradient)

    def write(self, arrays: Sequence[NDArray[Any]]) -> None:
        """Write what the next pass needs to where the graph reads it."""
        write_buffer(arrays, self._buffer.device, self._buffer)

    def hidden(self) -> Tensor:
        """Run the forward pass; the backward pass follows by autograd."""
        if self._graphs is None:
            return self._eager.hidden()
        found: Tensor = _Replay.apply(self._context.anchor, self)  # type: ignore[no-untyped-call]
        return found

    def replay_forward(self) -> Tensor:
        """Return the last hidden states."""
        assert self._graphs is not None
        self._graphs[0].replay()
        return self._hidden

    def replay_backward(self, gradient: Tensor) -> None:
        """Add to the gradients of adapters, from that of the hidden states."""
        assert self._graphs is not None
        self._gradient.copy_(gradient)
        self._graphs[1].replay()

    def results(self, flat: Sequence[Tensor], gradient: Tensor | None = None) -> list[Tensor]:
        """Return a gradient of the hidden states, these, and what the pass adds to others.

        Args:
            flat: gradients of the adapters of the pass.
            gradient: of the hidden states; `None`: a random one.
        """
        before = [one.clone() for one in flat]
        with self._context.active(self.products):
            hidden = self.hidden()
            gradient = torch.randn_like(hidden) if gradient is None else gradient
            torch.autograd.backward(hidden, gradient)
        added = [one - old for one, old in zip(flat, before, strict=True)]
        return [gradient, hidden.detach().clone(), *added]


def _difference(found: Sequence[Tensor], expected: Sequence[Tensor]) -> str:
    """Return in what the results of a captured pass differ from others; empty: in nothing."""
    for one, other in zip(found, expected, strict=True):
        error, size = float((one - other).norm()), float(other.norm())
        if not error <= _ROUNDING * size:
            return f"a captured pass differs by {error:.3g} of {size:.3g}"
    return ""


class _Replay(torch.autograd.Function):
    """anchor -> hidden states of a graph, which is replayed forward and backward."""

    @staticmethod
    def forward(ctx: Any, _anchor: Tensor, graph: _Graph) -> Tensor:
        ctx.graph = graph
        return graph.replay_forward().detach()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        ctx.graph.replay_backward(gradients[0])
        return None, None
