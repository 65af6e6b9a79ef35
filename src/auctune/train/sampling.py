"""Text from a base with an adapter: one token after the other, greedily or at a temperature T,

p(token) ~ exp(logit / T).
"""

import inspect
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

import torch
from peft import PeftModel
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from auctune.domain.dataset import RowKind
from auctune.domain.errors import InputError
from auctune.train.base import Base
from auctune.train.export import load_adapter
from auctune.train.job import SampleParams
from auctune.train.rows import prompt_tokens, turn_end_tokens

_FILES = ("adapter_config.json", "adapter_model.safetensors")
# A decoder's replacement for the bytes of an incomplete character.
_BROKEN = "\ufffd"


def sample_text(
    base: Base, adapter: Path | None, kind: RowKind, prompt: str, params: SampleParams
) -> Iterator[str]:
    """Yield the continuation of a prompt in pieces of complete characters.

    Args:
        base: that the adapter was trained on.
        adapter: folder in PEFT's format, weights as safetensors; `None`: the base alone.
        kind: of the rows that it was trained on, which determines the form of a prompt.
        prompt: text.
        params: how tokens are chosen, and how many at most.

    Raises:
        InputError: if the adapter is missing, or the prompt fills the base's context.
        ExportError: if the adapter is not one of this base.
    """
    ids = prompt_tokens(kind, prompt, base.tokenizer)
    if not ids:
        raise InputError("prompt", "is empty", "a text")
    if base.context_tokens is not None and len(ids) >= base.context_tokens:
        expected = f"fewer than the {base.context_tokens} that the base can read"
        raise InputError("prompt", f"has {len(ids)} tokens", expected)
    model = base.fresh_model() if adapter is None else load_checked_adapter(base, adapter)
    return continue_tokens(base, model, ids, params)


def continue_tokens(
    base: Base, model: nn.Module, ids: Sequence[int], params: SampleParams
) -> Iterator[str]:
    """Yield what a model says after some tokens, one at least, in pieces of complete characters.

    The text ends at the end token, after `params.max_tokens`, or where the base's context ends.
    """
    room = params.max_tokens
    if base.context_tokens is not None:
        room = min(room, base.context_tokens - len(ids))
    start = torch.tensor([list(ids)], device=base.device)
    tokens = _generate(model, start, room, end_tokens(base), params)
    return _detokenize_stream(tokens, base.tokenizer)


def end_tokens(base: Base) -> frozenset[int]:
    """Return the tokens that end an answer.

    They are the tokenizer's, those of the base's settings, and those that end the assistant's turn
    in training.
    """
    found = [base.tokenizer.eos_token_id, *turn_end_tokens(base.tokenizer)]
    settings = base.model.generation_config
    of_model = None if settings is None else settings.eos_token_id
    found += of_model if isinstance(of_model, list) else [of_model]
    return frozenset(token for token in found if token is not None)


def load_checked_adapter(base: Base, folder: Path) -> nn.Module:
    """Return an adapter on its base, in evaluation mode.

    Raises:
        InputError: if the folder lacks a file of PEFT's format.
        ExportError: if the adapter is not one of this base.
    """
    for name in _FILES:
        # Left to itself PEFT would look for a pickle, or on the hub.
        if not (folder / name).is_file():
            raise InputError(f"adapter {folder}", f"has no {name}", "a folder in PEFT's format")
    adapted: nn.Module = load_adapter(base, folder)
    return adapted


def last_logits(model: nn.Module) -> dict[str, int]:
    """Return what has a model compute the logits after its last token alone, if it can."""
    model = model.get_base_model() if isinstance(model, PeftModel) else model
    is_known = "logits_to_keep" in inspect.signature(model.forward).parameters
    return {"logits_to_keep": 1} if is_known else {}


@torch.no_grad()
def _generate(
    model: nn.Module, prompt: Tensor, max_tokens: int, ends: Set[int], params: SampleParams
) -> Iterator[int]:
    """Yield tokens after a prompt (1, tokens), up to an end token (exclusive) or `max_tokens`."""
    generator = torch.Generator(prompt.device).manual_seed(params.seed)
    ids, past, options = prompt, None, last_logits(model)
    for _ in range(max_tokens):
        answer = model(input_ids=ids, past_key_values=past, use_cache=True, **options)
        past = answer.past_key_values
        ids = _sample_token(answer.logits[0, -1].float(), params.temperature, generator)
        if (token := int(ids)) in ends:
            return
        yield token


def _sample_token(logits: Tensor, temperature: float, generator: torch.Generator) -> Tensor:
    """Return one token, as (1, 1), from logits (vocabulary,)."""
    if temperature == 0:
        return logits.argmax().view(1, 1)
    # Shifted first: a small temperature must not make the largest of them infinite.
    probs = torch.softmax((logits - logits.max()) / temperature, dim=-1)
    return torch.multinomial(probs, 1, generator=generator).view(1, 1)


def _detokenize_stream(tokens: Iterator[int], tokenizer: PreTrainedTokenizerBase) -> Iterator[str]:
    """Yield tokens as pieces of text; a character of several tokens comes with its last."""
    ids: list[int] = []
    shown = text = ""
    for token in tokens:
        ids.append(token)
        text = str(
            tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        )
        if len(text) > len(shown) and not text.endswith(_BROKEN):
            yield text[len(shown) :]
            shown = text
    if len(text) > len(shown):
        yield text[len(shown) :]
