"""`auctune workload`: a market made up, or taken from a job log, as an instance file.

`auctune simulate` builds its market through `make_market` where no file is given.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auctune.cli.settings import parse_settings
from auctune.domain.errors import InputError

if TYPE_CHECKING:
    from auctune.sim.instance import Instance
    from auctune.sim.traces import JobLog

Arrivals = Annotated[
    Path | None,
    typer.Option(help="A job log whose jobs' times the bids arrive at; none: made-up arrivals."),
]


def workload(
    out: Annotated[Path, typer.Option(help="Where the instance goes (JSON).")],
    arrivals: Arrivals = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of the workload; repeatable."),
    ] = None,
) -> None:
    """Make a market up, or take its bids' times from a job log, and write it as an instance."""
    market = make_market(arrivals, settings or [], "--set")

    from auctune.sim.instance_file import write_instance

    if arrivals is not None and out.resolve() == arrivals.resolve():
        raise InputError(str(out), "is the job log itself", "another file to write")
    write_instance(market, out)
    cluster = market.cluster
    typer.echo(
        f"{out}: {len(market.tasks):,} bids for {len(cluster.nodes)} nodes, "
        f"{cluster.slots} slots of {cluster.slot_seconds:g} s"
    )


def make_market(arrivals: Path | None, settings: list[str], option: str) -> "Instance":
    """The market of a job log and KEY=VALUE texts, given as `option`.

    Raises:
        InputError: naming the option and its key, or the file and the place in it.
    """
    wanted = parse_settings(settings, option)

    from auctune.sim.traces import read_job_log
    from auctune.sim.workloads.build import build_workload, is_key

    log = None if arrivals is None else read_job_log(arrivals)
    if log is not None:
        _tell(arrivals, log)
    try:
        return build_workload(wanted, log)
    except InputError as error:
        if is_key(error.place) or error.place in wanted:
            raise InputError(f"{option} {error.place}", error.found, error.expected) from None
        if error.place == "log":
            raise InputError(str(arrivals), error.found, error.expected) from None
        raise


def _tell(path: Path | None, log: "JobLog") -> None:
    left_out = "".join(f"; left out, {reason}: {n:,}" for reason, n in log.left_out.items())
    typer.echo(f"{path}: {len(log):,} jobs on {log.num_days} days{left_out}", err=True)
