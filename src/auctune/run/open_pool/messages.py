"""What the owner of a standing pool and its process say to each other: JSON, one message a line.

| to the pool | from the pool |
| --- | --- |
| want {threads, seq} | preparing {what, share}, ready {base_digest}, alive |
| stop | event {number, event, views} |
| | followed {seq} |
| | failed {place, found, expected} |

`threads` are all that are wanted (auctune.run.open_pool.wanted). `seq` numbers the owner's state
that they follow from; `followed` returns it once the pool has dropped all other threads, and has
sent every event about them. Events are those of the pool's journal (auctune.run.open_pool.state): a
process that begins tells those first that its owner does not have. `views` say of each thread of a
unit that has just been trained by when it will be done if its share stays, in units, and its
verdict; an event that is told again has none.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from auctune.run.child import Message
from auctune.run.open_pool.wanted import Wanted, WantedThread
from auctune.timeshare.named import DEFAULT_ALLOCATOR, AllocatorName


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """What a pool's process is started with.

    Attributes:
        folder: of the pool (auctune.run.open_pool.folder).
        base: the base model's name.
        cache: folder of bases that are built here.
        epoch: unix time at which unit 0 began.
        unit_seconds: how long a unit is.
        allocator: how threads share, by name.
        after: number of the newest event that its owner has.
        device, dtype: where and how it computes.
        threads: of torch on a CPU.
        memory_bytes: that adapters may take on the device together; none: all there is.
    """

    folder: str
    base: str
    cache: str
    epoch: float
    unit_seconds: float
    allocator: AllocatorName = DEFAULT_ALLOCATOR
    after: int = 0
    device: str = "cpu"
    dtype: str = "float32"
    threads: int = 1
    memory_bytes: int | None = None


def want_message(threads: Iterable[WantedThread], seq: int) -> Message:
    """Return the message that names all wanted threads."""
    return {"do": "want", "threads": [thread.to_record() for thread in threads], "seq": seq}


def read_want(message: Message) -> tuple[Wanted, int]:
    """Return the threads of `want_message` by id, and its `seq`."""
    found = [WantedThread.from_record(record) for record in message["threads"]]
    return {thread.id: thread for thread in found}, message["seq"]
