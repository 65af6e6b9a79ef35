"""What a command of figures says of options that it refuses."""

from collections.abc import Callable, Sequence

import pytest

from auctune.domain import InputError


def refused_place(parse: Callable[[Sequence[str], str], object], arguments: Sequence[str]) -> str:
    """The option that a parser of arguments refuses."""
    with pytest.raises(InputError) as refused:
        parse(arguments, "")
    return refused.value.place
