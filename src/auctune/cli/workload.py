"""`auctune workload`: write a market, synthetic or from a job log, to an instance file."""

from pathlib import Path
from typing import Annotated

import typer

from auctune.cli._support.options import parse_key_values
from auctune.cli._support.outputs import check_output_paths, files_in
from auctune.domain.errors import InputError
from auctune.sim.instance import Instance
from auctune.sim.instance_file import write_instance
from auctune.sim.stream.tasks import write_market
from auctune.sim.traces import JobLog, read_job_log
from auctune.sim.workloads.build import build_workload, is_key

STREAM_SUFFIX = ".parquet"

Arrivals = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Use the arrival times of this job log. Default: synthetic ones."
    ),
]


def workload(
    out: Annotated[
        Path,
        typer.Option(metavar="FILE", help="Write the instance: JSON, or *.parquet to stream it."),
    ],
    arrivals: Arrivals = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a workload parameter; repeatable."),
    ] = None,
) -> None:
    """Generate a market for simulate, synthetic or from a job log."""
    is_stream = out.suffix == STREAM_SUFFIX
    written = (out, out.with_suffix(".json")) if is_stream else (out,)
    check_output_paths((arrivals, *files_in(settings or ())), written)
    market = make_market(arrivals, settings or [], "--set")
    if is_stream:
        write_market(market, market.in_order(), out)
    else:
        write_instance(market, out)
    cluster = market.cluster
    typer.echo(
        f"{out}: {len(market.tasks):,} bids for {len(cluster.nodes)} nodes, "
        f"{cluster.slots} slots of {cluster.slot_seconds:g} s"
    )


def make_market(arrivals: Path | None, settings: list[str], option: str) -> Instance:
    """Return a market generated from a job log and the KEY=VALUE texts of `option`."""
    values = parse_key_values(settings, option)
    log = None if arrivals is None else read_job_log(arrivals)
    if log is not None:
        _print_log(arrivals, log)
    try:
        return build_workload(values, log)
    except InputError as error:
        if is_key(error.place) or error.place in values:
            raise error.at(f"{option} {error.place}") from None
        if error.place == "log":
            raise error.at(str(arrivals)) from None
        raise


def _print_log(path: Path | None, log: JobLog) -> None:
    skipped = "".join(f"; skipped, {reason}: {n:,}" for reason, n in log.left_out.items())
    typer.echo(f"{path}: {len(log):,} jobs on {log.num_days} days{skipped}", err=True)
