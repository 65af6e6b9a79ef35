"""Data sets as people have them: files of rows, in their forms, checked key by key."""

from auctune.datasets.checks import read_chat, read_row
from auctune.datasets.reading import (
    FileRow,
    dataset_of,
    find_kind,
    iterate_rows,
    read_dataset,
)

__all__ = [
    "FileRow",
    "dataset_of",
    "find_kind",
    "iterate_rows",
    "read_chat",
    "read_dataset",
    "read_row",
]
