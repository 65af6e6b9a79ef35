"""Child processes that speak JSON with their parent: torch and transformers live in them alone."""

from auctune.run.child.messages import Hear, Message
from auctune.run.child.process import ChildProcess

__all__ = ["ChildProcess", "Hear", "Message"]
