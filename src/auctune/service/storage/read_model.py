"""Read model of a job: one row, replaced whenever something happens to the job.

The body holds plain JSON values:

| key | holds |
| --- | --- |
| request, training, owner | the request, its resolved training settings, and the owner |
| state | its state, by the market's name |
| size | rows and mean_tokens of its data |
| decision | the decision: `admitted`, `reason`, and fields of the zone's kind |
| progress | rows, total_rows, tokens, steps, first_loss, last_loss |
| files | ids of its result files; the adapter is the last |
| checkpoints | `file` and `metrics` of the adapters of its last epochs |
| error | code, message and param, where it failed |
| refunded, finished_at, notes | |

A kind of zone may add keys of its own.
"""

from dataclasses import dataclass
from enum import StrEnum

from auctune.service.ledger import Entry
from auctune.service.storage.events import Record


class Status(StrEnum):
    """Status of a job, as OpenAI's API names it."""

    VALIDATING = "validating_files"
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class JobReadModel:
    """A row of the table of jobs; `seq` is that of the first event about it: the order of lists."""

    id: str
    zone: str
    seq: int
    owner: str
    created_at: float
    status: Status
    body: Record


def empty_body(owner: str, request: Record, training: Record) -> Record:
    """The body of a job of which nothing is known yet."""
    return {
        "owner": owner,
        "request": request,
        "training": training,
        "state": "",
        "size": None,
        "decision": None,
        "progress": None,
        "files": [],
        "checkpoints": [],
        "error": None,
        "refunded": False,
        "finished_at": None,
        "notes": [],
    }


@dataclass(frozen=True, slots=True)
class Effects:
    """Effects of an event outside of the zone's state: rows of jobs, and ledger entries.

    Entries of an event about a job come with a row of the job, of the same event or of another one
    that is committed with it.
    """

    rows: tuple[JobReadModel, ...] = ()
    entries: tuple[Entry, ...] = ()
