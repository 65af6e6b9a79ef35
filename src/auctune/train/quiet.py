"""What the libraries of models print themselves, kept out of what auctune prints."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from transformers.utils import logging as transformers_logging


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """No progress bar and no line of a retry inside the block; as it was before, after it."""
    hub = logging.getLogger("huggingface_hub")
    level = hub.level
    shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    hub.setLevel(logging.ERROR)
    try:
        yield
    finally:
        hub.setLevel(level)
        if shown:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]
