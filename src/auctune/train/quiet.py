"""Transformers' own progress bars, kept out of what auctune prints."""

from collections.abc import Iterator
from contextlib import contextmanager

from transformers.utils import logging


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """No progress bar of transformers inside the block; as it was before, after it."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
