"""Look for a setting in which AHAP is ahead by the paper's margins, and print the nearest.

Settings are drawn anywhere within what the paper does not exclude, then beside the best so far:
mean, spread and pace of prices; how often there is no spot GPU, and how often all; the pace and
daily cycle of counts; N_max; g. In each v is the one at which the margin over OD-Only is right.
The baselines are those of the paper's text, in the reading that comes nearest, or auctune's own
with --ours.
"""

import argparse
from dataclasses import asdict

from rich.console import Console
from rich.progress import track

from auctune.domain import InputError
from auctune.sim.figures import Rows, exits, show
from spot_harness.margins import ALL_LITERAL, OURS, PAPER, Found, search

_SHOWN = 5


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--drawn", type=int, default=150, help="settings drawn anywhere (%(default)s)")
    add("--near", type=int, default=250, help="settings beside the best (%(default)s)")
    add("--jobs", type=int, default=100, help="in each (%(default)s)")
    add("--seed", type=int, default=0, help="of settings, markets and jobs (%(default)s)")
    add("--ours", action="store_true", help="UP and MSU with their safety nets")
    given = parser.parse_args()
    if given.drawn < 1 or given.near < 0 or given.jobs < 2:
        raise InputError("--drawn, --near, --jobs", "too few", "at least 1, 0 and 2")
    console = Console()
    total = given.drawn + given.near
    trying = search(
        given.drawn, given.near, given.jobs, given.seed, (OURS,) if given.ours else ALL_LITERAL
    )
    found = list(track(trying, "settings", total=total, console=console, transient=True))
    best = sorted(found, key=lambda one: one.margins.distance)
    show(console, f"The nearest of {total} settings", table(best[:_SHOWN]))
    console.print(best[0].setting)


def table(found: list[Found]) -> Rows:
    """A column a setting."""
    columns = [
        (
            f"{one.margins.distance:.3f}",
            *(f"{one.margins.lead(baseline):+.1%}" for baseline in PAPER),
            *(f"{value:.3g}" for value in asdict(one.setting).values()),
            one.margins.readings.name,
        )
        for one in found
    ]
    heads = (
        "largest gap",
        *(f"over {baseline}" for baseline in PAPER),
        *asdict(found[0].setting),
        "readings",
    )
    names = tuple(f"{index + 1}." for index in range(len(found)))
    return Rows(("", *names), tuple(zip(heads, *columns, strict=True)))


if __name__ == "__main__":
    with exits():
        main()
