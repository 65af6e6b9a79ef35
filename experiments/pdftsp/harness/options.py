"""What every figure's command takes."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from auctune.domain import InputError
from auctune.registry.mechanisms import check_settings
from auctune.sim import figures
from harness.market import Setting, Trace, changed
from harness.trials import MECHANISMS, entry

OUT = Path("out/experiments/pdftsp")
# A quick run is this many times smaller: in nodes and in bids.
_SMALLER = 25


@dataclass(frozen=True, slots=True)
class Options(figures.RunOptions):
    """How a figure is run.

    Attributes:
        seeds: days that each mechanism is tried on.
        mechanisms: labels, in the order of the legend.
        market: settings of the workload, in place of the figure's defaults.
        traces: job logs, for Figure 7.
    """

    out: Path = OUT
    seeds: int = 5
    mechanisms: tuple[str, ...] = MECHANISMS
    market: Mapping[str, str] = field(default_factory=dict)
    traces: tuple[Trace, ...] = ()

    def settings(self, wanted: Sequence[Setting]) -> list[Setting]:
        """A figure's markets as these options change them."""
        _check_varied(wanted, self.market)
        asked = changed(wanted, self.market)
        return [_shrunk(one) for one in asked] if self.quick else asked


def add_options(parser: argparse.ArgumentParser) -> None:
    """Those that all figures have."""
    figures.add_run_options(parser, OUT)
    add = parser.add_argument
    add("--seeds", type=int, default=None, help="days that each mechanism is tried on (5)")
    add(
        "--mechanisms",
        default="",
        metavar="NAME[:KEY=VALUE...],...",
        help="more of them, beside the figure's own",
    )
    add(
        "--market",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of the workload that the figure does not vary; repeatable",
    )
    add(
        "--trace",
        action="append",
        default=[],
        type=Path,
        help="a job log, for Figure 7; repeatable",
    )
    add("--start-day", type=int, default=1, help="of the logs: the first day played (1)")
    add("--days", type=int, default=None, help="of the logs: days from there on (to their ends)")


def to_options(parsed: argparse.Namespace) -> Options:
    """What was parsed, checked.

    Raises:
        InputError: naming the option.
    """
    seeds = parsed.seeds if parsed.seeds is not None else (2 if parsed.quick else 5)
    figures.check_option("--seeds", seeds)
    more = tuple(label for label in parsed.mechanisms.split(",") if label)
    for label in more:
        try:
            found = entry(label)
            check_settings(found.mechanism, found.settings)
        except InputError as error:
            raise InputError(f"--mechanisms {label}", error.found, error.expected) from None
    return Options(
        **figures.run_options(parsed),
        seeds=seeds,
        mechanisms=tuple(dict.fromkeys((*MECHANISMS, *more))),
        market=_market(parsed.market),
        traces=tuple(Trace(path, parsed.start_day, parsed.days) for path in parsed.trace),
    )


COMMANDS = figures.Commands(add_options, to_options)
parse = COMMANDS.parse


def _check_varied(wanted: Sequence[Setting], market: Mapping[str, str]) -> None:
    """Refuse to set what a figure varies itself."""
    for key in market:
        if all(key in dict(one.workload) for one in wanted):
            raise InputError("--market", f"{key!r} is what this figure varies", "another key")


def _market(texts: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError("--market", repr(text), "KEY=VALUE")
        if key == "seed":
            raise InputError("--market", "'seed' is drawn by the experiment", "another key")
        found[key] = value
    return found


def _shrunk(one: Setting) -> Setting:
    workload = dict(one.workload)
    nodes = [part.split(":") for part in workload.get("nodes", "a100:50").split(",")]
    few = ",".join(f"{name}:{max(1, int(count) // _SMALLER)}" for name, count in nodes)
    smaller = {"nodes": few, "rate": repr(float(workload.get("rate", "50")) / _SMALLER)}
    if one.trace is None:
        # A window of a log as short as that may have no job at all.
        smaller["slots"] = f"{int(workload.get('slots', '144')) // 6}"
    return replace(
        one,
        workload=tuple(sorted({**workload, **smaller}.items())),
        before=one.before and tuple((key, _fewer(key, value)) for key, value in one.before),
    )


def _fewer(key: str, value: str) -> str:
    return repr(float(value) / _SMALLER) if key == "rate" else value
