"""Child processes that speak JSON with their parent: torch and transformers live in them alone."""

from auctune.run.child.calls import Calls
from auctune.run.child.messages import Hear, Message
from auctune.run.child.nursed import nursery
from auctune.run.child.process import ChildProcess

__all__ = ["Calls", "ChildProcess", "Hear", "Message", "nursery"]
