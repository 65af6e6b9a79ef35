"""What holds of a job in a zone of any kind: received once, decided once, ended once."""

from collections import Counter
from collections.abc import Iterator

from auctune.service.storage.events import EventType, ZoneEvent
from auctune.service.zones.timeshare.events import TimeshareEventType
from soak.log import OVER, Story

_ONCE = (EventType.RECEIVED, EventType.DECIDED, *OVER)

# The service failed, so all comes back; or its owner did, or the job's own terms ended it.
_SERVICE_FAILED = ("deadline_missed", "service_failed", "training_failed", "vendor_failed")
_OWNER_FAILED = ("cap_reached", "deadline_passed", "target_not_reached")


def check_story(story: Story) -> Iterator[str]:
    """What is wrong with a job, whatever kind its zone is of."""
    if story.row is None:
        yield f"{story.job} is in the log and has no row"
    counts = Counter(event.type for event in story.events)
    yield from (f"{story.job}: {kind} {counts[kind]} times" for kind in _ONCE if counts[kind] > 1)
    last = story.events[-1]
    ends = [event for event in story.events if event.type in OVER or _is_rejection(event)]
    if len(ends) != 1 or not (ends[0] is last or _is_settled(ends[0], last)):
        told = [event.type for event in story.events[-3:]]
        yield f"{story.job} is not over, or went on when it was: it ends with {told}"
    if len({event.zone for event in story.events}) > 1:
        yield f"{story.job} is in two zones"


def check_refund(story: Story) -> Iterator[str]:
    """Whether a job that was admitted is refunded where the service failed it, and only there."""
    last = story.events[-1]
    code = last.body.get("code")
    if last.type != EventType.FAILED:
        return
    if code not in (*_SERVICE_FAILED, *_OWNER_FAILED):
        yield f"{story.job} failed for a reason that nobody knows: {code}"
    elif last.body["refund"] != (code in _SERVICE_FAILED):
        yield f"{story.job} failed ({code}), with refund {last.body['refund']}"


def _is_settled(end: ZoneEvent, last: ZoneEvent) -> bool:
    """Whether a job was cancelled in a pool, and its last event says that the pool dropped it."""
    return "held" in end.body and last.type == TimeshareEventType.SETTLED


def _is_rejection(event: object) -> bool:
    return (
        getattr(event, "type", None) == EventType.DECIDED and not event.body["decision"]["admitted"]  # type: ignore[attr-defined]
    )
