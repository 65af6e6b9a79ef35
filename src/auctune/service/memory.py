"""Python's search for garbage that refers to itself, kept from holding up bids.

Nearly all that a bid leaves is freed at once, by reference counts. A search through everything
takes a tenth of a second and more, in which no thread of Python runs: half a second with all
modules in it. So modules and what was opened are left out for good, and what is young is looked at
as ever; all of it only after some hundred thousand admitted jobs.
"""

import gc

_YOUNG, _MIDDLE, _ALL = 700, 10, 1000


def settle() -> None:
    """All that is there now stays: look for garbage among what comes later."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _ALL)
