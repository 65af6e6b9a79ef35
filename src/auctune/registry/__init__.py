"""From names, as files and the command line give them, to mechanisms, auctune's and others'.

`mechanisms` has the auctions, `policies` renting, the edge and time sharing, `third_party` what
installed packages offer. This module imports none of them, so that a package that offers a
mechanism loads no other.
"""

from auctune.registry.entry import KnownBids, MechanismEntry

__all__ = ["KnownBids", "MechanismEntry"]
