"""Attention over rows that lie one after the other in one stream of tokens, without padding.

transformers has models take their attention from a registry. A function that it does not know gets
no mask, and whatever a model's forward method is given beside its own arguments: here where the
rows end. On CUDA torch's kernel for rows of any length computes them all; elsewhere rows are
computed run by run, a run being neighbours of equal length.

Not every model can do it: some take part of their attention, or of their positions, from a mask, or
mix tokens by other means. `enable_packing` tries, and leaves a model as it was that cannot.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention.varlen import varlen_attn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, PretrainedConfig, PreTrainedModel

ATTENTION_NAME = "auctune_packed"
# Number types and largest size of a head of torch's kernel for rows of any length.
_VARLEN_DTYPES = (torch.bfloat16, torch.float16)
_VARLEN_HEAD = 256
_TRIED_ROWS = (7, 5)
# What may be rounding: of the difference that seeing other rows makes, and of the logits.
_LEAK, _ROUNDING = 0.1, 1e-4


@dataclass(frozen=True)
class PackedRows:
    """Rows of a stream of N tokens.

    Attributes:
        lengths: of the rows, in their order; their sum is N.
        ends: int32 [rows + 1], 0 and where each row ends, on the device.
        longest: no row is longer.
    """

    lengths: tuple[int, ...]
    ends: Tensor
    longest: int

    @cached_property
    def runs(self) -> list[tuple[int, int, int]]:
        """First token, number of rows and their length, of neighbours of equal length."""
        found, first = [], 0
        for length, rows in groupby(self.lengths):
            count = len(list(rows))
            if length:
                found.append((first, count, length))
            first += count * length
        return found


def packed_attention(
    _module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    packed_rows: PackedRows | None = None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    dropout: float = 0.0,
    noted_windows: list[int] | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **_kwargs: Any,
) -> tuple[Tensor, None]:
    """Causal attention within each row.

    Args:
        query, key, value: [1, heads, N, size]; keys and values may have fewer heads.
        attention_mask: none.
        packed_rows: what the model's forward method was given; `None`: rows are as long as each
            other, [rows, heads, length, size].
        scaling: of scores; `None`: 1 / sqrt(size).
        sliding_window: tokens that one sees, itself among them; `None`: all before it.
        noted_windows: gets the sliding window, if there is one; for `enable_packing`.
        dropout, softcap, s_aux: not supported, but for none.

    Returns:
        [1, N, heads, size], or [rows, length, heads, size], and nothing.
    """
    if attention_mask is not None or dropout or softcap is not None or s_aux is not None:
        raise NotImplementedError("attention with a mask, dropout, caps or sinks")
    if noted_windows is not None and sliding_window is not None:
        noted_windows.append(sliding_window)
    if packed_rows is None:
        return _attend(query, key, value, scaling, sliding_window), None
    uses_kernel = query.device.type == "cuda" and query.dtype in _VARLEN_DTYPES
    if uses_kernel and query.shape[-1] == value.shape[-1] <= _VARLEN_HEAD:
        return _varlen(query, key, value, packed_rows, scaling, sliding_window), None
    parts = [
        _attend_run(query, key, value, run, scaling, sliding_window) for run in packed_rows.runs
    ]
    return (parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)), None


def _varlen(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    rows: PackedRows,
    scaling: float | None,
    window: int | None,
) -> Tensor:
    # The gradient of a view of one row is a view; that of an index would be a copy among zeros.
    query, key, value = (one.squeeze(0).transpose(0, 1) for one in (query, key, value))
    found = varlen_attn(
        query,
        key,
        value,
        rows.ends,
        rows.ends,
        rows.longest,
        rows.longest,
        scale=scaling,
        window_size=(-1 if window is None else window - 1, 0),
        enable_gqa=key.shape[1] != query.shape[1],
    )
    assert isinstance(found, Tensor)
    return found.unsqueeze(0)


def _attend_run(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    run: tuple[int, int, int],
    scaling: float | None,
    window: int | None,
) -> Tensor:
    """Return [1, tokens, heads, size] of a run of rows, as of `PackedRows.runs`."""
    first, count, length = run

    def rows(one: Tensor) -> Tensor:
        part = one[0, :, first : first + count * length]
        return part.view(len(part), count, length, -1).transpose(0, 1)

    found = _attend(rows(query), rows(key), rows(value), scaling, window)
    return found.reshape(1, count * length, query.shape[1], -1)


def _attend(
    query: Tensor, key: Tensor, value: Tensor, scaling: float | None, window: int | None
) -> Tensor:
    """Return [rows, length, heads, size] of rows of equal length, [rows, heads, length, size]."""
    mask, length = None, query.shape[2]
    if window is not None and length > window:
        places = torch.arange(length, device=query.device)
        distance = places.unsqueeze(1) - places
        mask = (distance >= 0) & (distance < window)
    found = scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        is_causal=mask is None,
        scale=scaling,
        enable_gqa=key.shape[1] != query.shape[1],
    )
    return found.transpose(1, 2)


AttentionInterface.register(ATTENTION_NAME, packed_attention)


def enable_packing(model: PreTrainedModel) -> bool:
    """Have a model take rows one after the other, if it can; return whether it does.

    Then its forward method wants `position_ids` within rows, and `packed_rows`.
    """
    kinds = getattr(model.config, "layer_types", None) or ()
    if not set(kinds) <= {"full_attention", "sliding_attention"}:
        return False
    before = model.config._attn_implementation
    alone = _logits_alone(model)
    model.set_attn_implementation(ATTENTION_NAME)
    try:
        if model.config._attn_implementation == ATTENTION_NAME and _separates_rows(model, alone):
            return True
    except (TypeError, ValueError, KeyError, RuntimeError, NotImplementedError):
        pass
    model.set_attn_implementation(before)
    return False


def _tried_tokens(model: PreTrainedModel) -> Tensor:
    device, num = next(model.parameters()).device, sum(_TRIED_ROWS)
    size: int = model.config.vocab_size
    # Models log a warning of rows that begin or end with padding, as there is no mask.
    tokens = [token for token in range(1, num + 2) if token != model.config.pad_token_id]
    return torch.tensor(tokens[:num], device=device) % size


@torch.no_grad()
def _logits_alone(model: PreTrainedModel) -> Tensor:
    """Return the logits of each of two rows as the model computes it on its own."""
    rows = torch.split(_tried_tokens(model), list(_TRIED_ROWS))
    found = [model(input_ids=row.unsqueeze(0), use_cache=False).logits[0] for row in rows]
    return torch.cat(found).double()


@torch.no_grad()
def _packed_logits(model: PreTrainedModel, lengths: Sequence[int], windows: list[int]) -> Tensor:
    """Return the logits of the same tokens, cut into rows of some lengths.

    Args:
        model: that takes its attention here.
        lengths: of the rows.
        windows: gets those that attention is given.
    """
    ids = _tried_tokens(model)
    places = [torch.arange(length, device=ids.device) for length in _TRIED_ROWS]
    ends = torch.tensor([0, *lengths], device=ids.device).cumsum(0).to(torch.int32)
    found: Tensor = model(
        input_ids=ids.unsqueeze(0),
        position_ids=torch.cat(places).unsqueeze(0),
        packed_rows=PackedRows(tuple(lengths), ends, max(lengths)),
        noted_windows=windows,
        use_cache=False,
    ).logits
    return found[0].double()


def _separates_rows(model: PreTrainedModel, alone: Tensor) -> bool:
    """Return whether two packed rows come to what each came to alone.

    Rows are shorter than most sliding windows. Attention must be given each window: some models
    put it into the mask alone.
    """
    windows: list[int] = []
    together = _packed_logits(model, _TRIED_ROWS, windows)
    if len(windows) != _num_windows(model.config):
        return False
    rounding = _ROUNDING * float(alone.norm())
    if next(model.parameters()).dtype is not torch.float32:
        # Other kernels round otherwise, by far less than what seeing the other row would make.
        leaking = _packed_logits(model, [sum(_TRIED_ROWS)], [])
        rounding = max(rounding, _LEAK * float((leaking - alone).norm()))
    return float((together - alone).norm()) <= rounding


def _num_windows(config: PretrainedConfig) -> int:
    """Return the number of layers that have a sliding window."""
    kinds = getattr(config, "layer_types", None)
    if kinds is not None:
        return list(kinds).count("sliding_attention")
    has_window = getattr(config, "sliding_window", None) is not None
    return int(config.num_hidden_layers) if has_window else 0
