"""What a client knows by itself: what it sent, and what it was answered."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from soak.watched_job import View, WatchedJob


@dataclass
class Request:
    """A request for a job, sent once or more often.

    Attributes:
        token: the client's own name for it, in the job's metadata.
        body: as it was sent.
        headers: likewise; those that say that it is made again come with a second try.
        is_repeatable: whether it may be made again without becoming a second job.
        makes_job: whether it can become a job at all: no dry run, nothing that is refused.
        agreed: the price of the line of a quote that it accepts; none: it is a bid.
        first: the answer to the first try, if that was answered by a job.
        jobs: ids that answers named.
        tries: how often it was sent.
        lost: tries without an answer.
        refused: status and code of the newest refusal.
    """

    token: str
    body: bytes
    headers: dict[str, str]
    is_repeatable: bool
    makes_job: bool = True
    agreed: str | None = None
    first: View | None = None
    jobs: set[str] = field(default_factory=set)
    tries: int = 0
    lost: int = 0
    refused: tuple[int, str | None] | None = None

    @property
    def is_answered(self) -> bool:
        """Whether its client knows what became of it."""
        return self.tries > self.lost


@dataclass
class Deeds:
    """What a client had done to a job, by what: cancel, pause, resume.

    Attributes:
        done: answered so.
        unknown: not answered.
    """

    done: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)


@dataclass
class Diary:
    """Of one client.

    Attributes:
        user: whose it is.
        key: its own.
        requests: all of them.
        jobs: that it was told of, by id.
        deeds: by job.
        statuses: of HTTP, counted.
        moves: what it did, counted.
        wrong: what it saw to be wrong at once.
    """

    user: str
    key: str
    requests: list[Request] = field(default_factory=list)
    jobs: dict[str, WatchedJob] = field(default_factory=dict)
    deeds: dict[str, Deeds] = field(default_factory=dict)
    statuses: Counter[int] = field(default_factory=Counter)
    moves: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def see(self, view: dict[str, Any]) -> WatchedJob:
        """Take over an answer that shows a job."""
        job = self.jobs.setdefault(view["id"], WatchedJob(view["id"]))
        job.see(view)
        return job

    @property
    def open_jobs(self) -> list[WatchedJob]:
        """Jobs that are not over, as far as it knows."""
        return [job for job in list(self.jobs.values()) if not job.is_over]
