"""How much memory a dynamic program may take, said before anything is taken."""

from auctune.domain import InputError

# Of all tables of one program; on each processor there may be one.
MOST_BYTES = 2 * 2**30
_NUMBER = 8


def check_room(num_tables: int, n_max: int, units: int) -> None:
    """Refuse tables that are too large.

    Args:
        num_tables: one for each slot of a window, or for each scenario.
        n_max: the most GPUs held; a row for each count.
        units: columns, steps of work.

    Raises:
        InputError: naming `job`, and what would fit.
    """
    size = num_tables * (n_max + 1) * units * _NUMBER
    if size <= MOST_BYTES:
        return
    fewer = MOST_BYTES // ((n_max + 1) * units * _NUMBER)
    counts = MOST_BYTES // (num_tables * units * _NUMBER) - 1
    fits = [f"n_max <= {counts}"] if counts >= 1 else []
    fits += [f"{fewer} tables"] if fewer >= 1 else []
    found = (
        f"takes {num_tables} tables of {n_max + 1} counts x {units} steps of work, "
        f"{size / 2**30:,.1f} GiB"
    )
    would = f", that is {' or '.join(fits)}" if fits else ""
    expected = f"at most {MOST_BYTES / 2**30:g} GiB{would}; a table is a slot to plan for"
    raise InputError("job", found, expected)
