"""Requests to the agent of a Ray cluster, and its replies.

`node` is a number of the start of a node's worker. Before the agent is connected, and if it cannot
be, it sends `Missing` or `Failed`.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from auctune.engine.messages.base import Alive, Failed, Missing, Stop, WorkerMessages
from auctune.engine.messages.node import NodeReply, NodeRequest
from auctune.engine.runtime.ray.driver import ActorSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Start a node's worker in an actor."""

    node: int
    actor: ActorSpec
    type: Literal["launch"] = "launch"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToNode:
    """Forward a request to a node's worker."""

    node: int
    message: Annotated[NodeRequest, Field(discriminator="type")]
    type: Literal["to_node"] = "to_node"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """Kill a node's worker."""

    node: int
    type: Literal["kill"] = "kill"


@dataclass(frozen=True, slots=True, kw_only=True)
class FromNode:
    """A reply of a node's worker."""

    node: int
    message: Annotated[NodeReply, Field(discriminator="type")]
    type: Literal["from_node"] = "from_node"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGone:
    """A node's worker has ended."""

    node: int
    how: str
    type: Literal["node_gone"] = "node_gone"


AgentRequest = Launch | ToNode | Kill | Stop
AgentReply = Alive | Missing | Failed | FromNode | NodeGone
AGENT_MESSAGES = WorkerMessages(AgentRequest, AgentReply)
