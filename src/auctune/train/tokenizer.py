"""The tokenizer of a base, without the base."""

from pathlib import Path

from transformers import AutoConfig, AutoTokenizer, PreTrainedTokenizerBase

from auctune.domain.base_name import EXPECTED
from auctune.domain.errors import InputError
from auctune.train.base_source import check_config, context_of, find_source, loading


def load_tokenizer(name: str, *, cache: Path) -> tuple[PreTrainedTokenizerBase, int | None]:
    """A base's tokenizer, as `load_base` gives it, and its `context_tokens`; no weights are read.

    Raises:
        InputError: as `load_base`, as far as it can be known without weights.
    """
    place = f"base {name!r}"
    source, local = find_source(name, cache)
    with loading(place):
        config = AutoConfig.from_pretrained(source, local_files_only=local)
        check_config(name, config)
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            source, local_files_only=local
        )
    give_padding(tokenizer, place)
    return tokenizer, context_of(config)


def give_padding(tokenizer: PreTrainedTokenizerBase, place: str) -> None:
    """Let a tokenizer that has no token to pad with pad with that of the end of text.

    Raises:
        InputError: if it has neither.
    """
    if tokenizer.pad_token_id is None:
        if tokenizer.eos_token is None:
            raise InputError(place, "has no token for padding, nor for the end of text", EXPECTED)
        tokenizer.pad_token = tokenizer.eos_token
