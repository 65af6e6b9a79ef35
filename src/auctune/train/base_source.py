"""Where a base model is: behind its name, and whether it can be trained on at all.

Nothing here needs a model's code, so that a process that only reads texts starts without it.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError
from transformers import PretrainedConfig

from auctune.domain.base_name import EXPECTED, HUB, resolve_base
from auctune.domain.errors import InputError
from auctune.train.quiet import quiet_transformers
from auctune.train.tiny import tiny_folder

QUANTIZED_NAMES = re.compile(r"(?i)gptq|awq|gguf|bnb|[-_.](4|8)bit|int[48]\b|fp8|nf4")


def find_source(name: str, cache: Path) -> tuple[str, bool]:
    """The folder or hub name behind a base's name, and whether it is a folder."""
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
    """Refuse what is no plain decoder.

    Raises:
        InputError: of a quantized model or one with an encoder.
    """
    if getattr(config, "quantization_config", None) is not None:
        raise _refused(name, "is quantized, which is not supported")
    if config.is_encoder_decoder:
        raise _refused(name, "has an encoder, which is not supported")


def _refused(name: str, found: str) -> InputError:
    return InputError(f"base {name!r}", found, "a decoder in float32 or bfloat16 weights")


@contextmanager
def loading(place: str) -> Iterator[None]:
    """Says of whatever goes wrong in the block that the base cannot be loaded."""
    try:
        with quiet_transformers():
            yield
    except InputError:
        raise
    except (OSError, ValueError, ImportError, SafetensorError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(place, f"cannot be loaded ({reason})", EXPECTED) from None


def context_of(config: PretrainedConfig) -> int | None:
    """The longest row, in tokens, that a model has positions for; none if it has no limit."""
    limit = getattr(config, "max_position_embeddings", None)
    return None if limit is None else int(limit)
