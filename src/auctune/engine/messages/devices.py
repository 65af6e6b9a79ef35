"""Requests of a node's worker to the processes of its further devices, and their replies.

A follower first sends `DeviceLoaded`, or `Failed`, and joins the others when it is asked to. All
else is of `auctune.train.multilora.device_group`.
"""

from dataclasses import dataclass
from typing import Literal

from auctune.engine.messages.base import Alive, Failed, Stop, WorkerMessages
from auctune.train.multilora.device_group import FollowerReply, FollowerRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLoaded:
    """The process has loaded the base of this digest."""

    base_digest: str
    type: Literal["device_loaded"] = "device_loaded"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinDevices:
    """Join the process group of the node; `store` as of `join_devices`."""

    store: str
    number: int
    num_devices: int
    type: Literal["join_devices"] = "join_devices"


DeviceRequest = JoinDevices | FollowerRequest | Stop
DeviceReply = Alive | DeviceLoaded | Failed | FollowerReply
DEVICE_MESSAGES = WorkerMessages(DeviceRequest, DeviceReply)
