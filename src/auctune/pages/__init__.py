"""Jinja2 environment, style and components of all HTML: a run's report and the service's page."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from auctune.charts.theme import DARK, LIGHT, recolouring
from auctune.domain.money import format_money

NOTHING = "\N{EN DASH}"
"""Placeholder of a missing value."""


def money(amount: Decimal | str | None) -> str:
    """Return an amount with four decimals, the step of all prices."""
    return NOTHING if amount is None else format_money(Decimal(amount))


def percent(share: float) -> str:
    """Return a share in [0, 1] in percent."""
    return f"{share:.0%}"


def count(number: int, thing: str) -> str:
    """Return a number of things, such as "1 slot" or "2 slots"."""
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def make_environment(
    package: str, filters: Mapping[str, Callable[..., Any]] | None = None
) -> Environment:
    """Return an environment for the templates of a package, which may use those of this one.

    Every value is escaped, and an undefined name is an error.
    """
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("auctune.pages")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(money=money, percent=percent, count=count, **(filters or {}))
    environment.globals.update(light=LIGHT, dark=DARK, recolouring=recolouring(), nothing=NOTHING)
    return environment
