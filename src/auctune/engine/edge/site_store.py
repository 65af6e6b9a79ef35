"""Worker that reads the rows of a site, and cuts them into chunks: no torch, and no state."""

import hashlib
import tempfile
from pathlib import Path

import numpy as np

from auctune.datasets import read_dataset
from auctune.domain import InputError
from auctune.domain.data_size import check_method, method_of
from auctune.domain.dataset import DataSet
from auctune.engine.elastic.errors import failed_message
from auctune.engine.elastic.gradient_worker import dump_rows
from auctune.engine.messages.base import Ready, Stop
from auctune.engine.messages.elastic import STORE_MESSAGES, ReadRows, RowsRead, StoreReply
from auctune.engine.runtime.channel import ParentChannel
from auctune.engine.runtime.requests import serve
from auctune.engine.runtime.worker import WorkerSpec
from auctune.numerics.rng import stream

MESSAGES = STORE_MESSAGES
STORE_WORKER = WorkerSpec("auctune.engine.edge.site_store", {}, MESSAGES)
"""What the store of a site runs."""


def cut_chunks(path: Path, site: str, count: int, seed: int, place: str = "rows") -> list[DataSet]:
    """Return the rows of a site as chunks, in an order that the seed draws.

    Chunks differ by one row at most.

    Raises:
        InputError: naming `place`, if the file cannot be read, or has fewer rows than chunks.
    """
    data = read_dataset(path, place)
    if len(data) < count:
        raise InputError(place, f"has {len(data)} rows", f"{count} at least, one for each chunk")
    order = stream(seed, "edge", "site", site).permutation(len(data))
    return [
        DataSet(data.kind, tuple(data.rows[index] for index in part))
        for part in np.array_split(order, count)
    ]


def main(parent: ParentChannel[StoreReply, ReadRows | Stop], _: object) -> None:
    """Run the worker; it needs no argument."""
    parent.send(Ready())
    serve(parent, _read, failed_message)


def _read(request: ReadRows) -> RowsRead:
    """Return the chunks of a site's rows.

    Raises:
        InputError: if the rows cannot be used by the job's method, or are not those that were read
            before.
    """
    place, site = request.place, request.site
    if request.arrays:
        content = request.arrays[0].tobytes()
    else:
        try:
            content = Path(request.source).read_bytes()
        except OSError as error:
            raise InputError(
                place, f"cannot be read ({error.strerror})", "a file of rows"
            ) from None
    sha256 = hashlib.sha256(content).hexdigest()
    if request.sha256 not in (None, sha256):
        raise InputError(place, "has changed", "the rows with which the job began")
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(content)
        file.flush()
        chunks = cut_chunks(Path(file.name), site, request.num_chunks, request.seed, place)
    check_method(place, request.method, method_of(chunks[0].kind))
    return RowsRead(
        sha256=sha256,
        num_rows=sum(map(len, chunks)),
        sizes=[sum(len(str(row).encode()) for row in chunk.rows) for chunk in chunks],
        arrays=[dump_rows(chunk) for chunk in chunks],
    )
