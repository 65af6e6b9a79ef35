"""How events of a job are told to its owner; here those that are told alike in all zones."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from auctune.service.zones.event import Kind


@dataclass(frozen=True, slots=True)
class Told:
    """How one kind of event is told.

    Attributes:
        message: for people, from the event's body.
        level: info, warn or error.
        facts: keys of the body that programs read as well.
    """

    message: Callable[[Mapping[str, Any]], str]
    level: str = "info"
    data_fields: tuple[str, ...] = ()


def _trained(body: Mapping[str, Any]) -> str:
    result = body["result"]
    return f"{result['rows']} of {result['total_rows']} rows trained"


def _failed(body: Mapping[str, Any]) -> str:
    ending = "; refunded" if body["refund"] else ""
    return f"{body['message']}{ending}"


COMMON: Mapping[str, Told] = {
    Kind.RECEIVED: Told(lambda _: "Checking the data"),
    Kind.TRAINED: Told(_trained),
    Kind.PAUSED: Told(lambda _: "Paused by its owner"),
    Kind.RESUMED: Told(lambda _: "Resumed"),
    Kind.CANCELLED: Told(lambda _: "Cancelled by its owner"),
    Kind.FINISHED: Told(lambda _: "The adapter is ready"),
    Kind.FAILED: Told(_failed, "error"),
    Kind.JOB_NOTED: Told(lambda body: str(body["text"]), "warn"),
    Kind.OUT_OF_MEMORY: Told(lambda body: str(body["text"]), "warn"),
}
