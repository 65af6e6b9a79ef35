"""The location of a base model and its tokenizer, without the model.

Nothing here needs a model's code, so that a process that only reads texts starts without it.
"""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError
from transformers import AutoConfig, AutoTokenizer, PretrainedConfig, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

from auctune.domain.base_name import EXPECTED, HUB, resolve_base
from auctune.domain.errors import InputError
from auctune.train.tiny import tiny_folder

_EXPECTED = 'a decoder in float32 or bfloat16 weights, which dtype = "nf4" quantizes'
QUANTIZED_NAMES = re.compile(r"(?i)gptq|awq|gguf|bnb|[-_.](4|8)bit|int[48]\b|fp8|nf4")


def find_source(name: str, cache: Path) -> tuple[str, bool]:
    """Return the folder or hub name behind a base's name, and whether it is a folder."""
    place, found = f"base {name!r}", resolve_base(name, Path())
    if found == "tiny":
        return str(tiny_folder(cache).resolve()), True
    if not found.startswith(HUB):
        folder = Path(found)
        if not (folder / "config.json").is_file():
            raise InputError(place, "is a folder without a config.json", EXPECTED)
        return str(folder.resolve()), True
    if QUANTIZED_NAMES.search(found):
        raise _refused(name, "is quantized, which is not supported")
    return found.removeprefix(HUB), False


def check_config(name: str, config: PretrainedConfig) -> None:
    """Refuse a model that is not a plain decoder.

    Raises:
        InputError: for a quantized model or one with an encoder.
    """
    if getattr(config, "quantization_config", None) is not None:
        raise _refused(name, "is quantized, which is not supported")
    if config.is_encoder_decoder:
        raise _refused(name, "has an encoder, which is not supported")


def _refused(name: str, found: str) -> InputError:
    return InputError(f"base {name!r}", found, _EXPECTED)


@contextmanager
def loading(place: str) -> Iterator[None]:
    """Raise what goes wrong in the block as an `InputError`: the base cannot be loaded."""
    try:
        with quiet_transformers():
            yield
    except InputError:
        raise
    except (OSError, ValueError, ImportError, SafetensorError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(place, f"cannot be loaded ({reason})", EXPECTED) from None


def context_of(config: PretrainedConfig) -> int | None:
    """Return the maximum tokens of a row that a model has positions for, or None."""
    limit = getattr(config, "max_position_embeddings", None)
    return None if limit is None else int(limit)


def load_tokenizer(name: str, *, cache: Path) -> tuple[PreTrainedTokenizerBase, int | None]:
    """Return a base's tokenizer and its `context_tokens`, as `load_base` does; no weights are read.

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
    """Give a tokenizer without a padding token that of the end of text.

    Raises:
        InputError: if it has neither.
    """
    if tokenizer.pad_token_id is None:
        if tokenizer.eos_token is None:
            raise InputError(place, "has no token for padding, nor for the end of text", EXPECTED)
        tokenizer.pad_token = tokenizer.eos_token


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Suppress progress bars and lines on retries in a block."""
    hub = logging.getLogger("huggingface_hub")
    level = hub.level
    shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    hub.setLevel(logging.ERROR)
    try:
        yield
    finally:
        hub.setLevel(level)
        if shown:
            transformers_logging.enable_progress_bar()
