"""`auctune spot run`: a job trained on instances that come and go, to its adapter and its bill."""

from contextlib import AbstractContextManager
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auctune.cli._support.errors import refuse_with_resume, resumable
from auctune.cli.spot.cluster import OnCluster
from auctune.cli.spot.inputs import read_foretelling, read_policy
from auctune.cli.spot.options import FixedPrice, Forecast, OnePrice, Policy, Seed
from auctune.domain.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from auctune.run.spot.folder import SpotFolder
    from auctune.run.spot.inputs import RunInputs
    from auctune.run.spot.report import SpotRunReport
    from auctune.sim.spot.job_file import JobFile

# A finish so little after the deadline is rounding.
_SLACK = 1e-9

# Settings that are options of the same name.
_OPTIONS = ("policy", "forecast", "start", "threads", "device", "dtype")


def run(
    context: typer.Context,
    job: Annotated[
        Path | None, typer.Argument(help="The job: JOB.toml.", show_default=False)
    ] = None,
    market: Annotated[Path | None, typer.Option(help="The market that is replayed: CSV.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for what comes out, new.")] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Go on with the run in this folder.")
    ] = None,
    policy: Policy = "robust:risk=0.05",
    forecast: Forecast = "seasonal",
    start: Annotated[int, typer.Option(help="Slot of the market in which the job begins.")] = 0,
    slot_seconds: Annotated[
        float | None,
        typer.Option(help="How long a slot lasts here; none: as in the job's [market]."),
    ] = None,
    model_time: Annotated[
        bool,
        typer.Option("--model-time", help="Time passes as the job's model says; none is waited."),
    ] = False,
    warm: Annotated[
        bool, typer.Option("--warm", help="Fork workers from one that has loaded everything.")
    ] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")] = "cpu",
    dtype: Annotated[str, typer.Option(help="float32 or bfloat16.")] = "float32",
    threads: Annotated[int, typer.Option(help="Threads of each worker on a CPU.")] = 1,
    seed: Seed = 0,
    prices: OnePrice = None,
    fixed_price: FixedPrice = None,
    provider: Annotated[
        str, typer.Option(help="Where instances are: local, processes here, or ray, on a cluster.")
    ] = "local",
    ray_address: Annotated[
        str | None, typer.Option(help="HOST:PORT of the cluster's head; none: one is started here.")
    ] = None,
    availability: Annotated[
        str,
        typer.Option(help="How many spot instances there are: market, as in its file, or cluster."),
    ] = "market",
    spot_resource: Annotated[
        str, typer.Option(help="Custom resource of Ray nodes for spot instances.")
    ] = "auctune:spot",
    on_demand_resource: Annotated[
        str, typer.Option(help="The same of on-demand instances.")
    ] = "auctune:on-demand",
) -> None:
    """Train an adapter on instances that come and go.

    They are rented slot by slot from a market that is replayed.

    An instance is a process here, or an actor of a Ray cluster; one that the market takes away is
    killed, and one whose machine is lost is taken away. Leaves the adapter and the bill. Stopped at
    any moment, it goes on with --resume, of which the folder holds all it needs.
    """
    if resume is None:
        _check_given(job, market, out)
    else:
        refuse_with_resume(context)
    _check_time(slot_seconds, model_time=model_time)
    if prices is not None and fixed_price is not None:
        raise InputError("--fixed-price", "is given with --prices", "one of the two")
    read_policy(policy)
    read_foretelling(forecast)

    from rich.console import Console

    console = Console(highlight=False)
    # torch takes seconds to import.
    with console.status("starting"):
        from auctune.run.spot.inputs import RunSettings, given_inputs

    if resume is not None:
        _go_on(resume, console)
        return
    assert job is not None
    assert market is not None
    assert out is not None
    on_cluster = OnCluster(ray_address, availability, spot_resource, on_demand_resource)
    settings = RunSettings(
        policy=policy, forecast=forecast, start=start, warm=warm, seed=seed,
        slot_seconds=None if model_time else (slot_seconds or _slot_seconds(job)),
        device=device, dtype=dtype, threads=threads, base="", fixed_price=fixed_price,
        ray=on_cluster.record(provider, warm=warm, device=device),
    )  # fmt: skip
    _begin(given_inputs(job, market, prices, settings), out, console)


def _slot_seconds(job: Path) -> float:
    from auctune.sim.spot.job_file import read_job_file

    return read_job_file(job).market.slot_seconds


def _begin(given: "RunInputs", out: Path, console: "Console") -> None:
    from auctune.cli.spot.watching import Watching
    from auctune.run.base_cache import base_cache
    from auctune.run.spot.folder import SpotFolder
    from auctune.run.spot.from_files import begin_files

    place, job = SpotFolder(out), given.read_job()
    try:
        with _resumable(place), Watching(job.spot_job(), console) as watching:
            report = begin_files(given, out, cache=base_cache(), listener=watching)
    except InputError as error:
        if error.place in _OPTIONS:
            raise InputError(f"--{error.place}", error.found, error.expected) from None
        raise
    _show(report, job, place)


def _go_on(folder: Path, console: "Console") -> None:
    from auctune.cli.spot.watching import Watching
    from auctune.run.base_cache import base_cache
    from auctune.run.spot.folder import SpotFolder
    from auctune.run.spot.from_files import resume_files
    from auctune.run.spot.inputs import kept_inputs

    place = SpotFolder(folder)
    job = kept_inputs(place).read_job()
    with _resumable(place), Watching(job.spot_job(), console) as watching:
        report = resume_files(folder, cache=base_cache(), listener=watching)
    _show(report, job, place)


def _resumable(place: "SpotFolder") -> AbstractContextManager[None]:
    from auctune.run.spot.inputs import has_inputs

    return resumable("spot run", place.root, partial(has_inputs, place))


def _show(report: "SpotRunReport", file: "JobFile", place: "SpotFolder") -> None:
    from auctune.cli.spot.tables import in_money

    job, money, outcome = file.spot_job(), file.market, report.outcome
    when = "on time" if outcome.finish <= job.deadline + _SLACK else "late"
    typer.echo(f"done after {outcome.finish:.2f} of {job.deadline} slots, {when}")
    held = outcome.allocations
    typer.echo(
        f"rented {sum(one.on_demand for one in held)} on-demand and "
        f"{sum(one.spot for one in held)} spot GPU-slots; {report.num_taken_back} taken away"
    )
    if outcome.ending_cost > 0:
        typer.echo(f"after the deadline, {job.n_max} on-demand: {outcome.ending_cost:.3f}")
    typer.echo(f"cost {outcome.cost:.3f}{in_money(outcome.cost, money)}")
    typer.echo(f"value {outcome.value:.3f}, utility {outcome.utility:.3f}")
    for name in ("mu1", "mu2"):
        found = getattr(report.overhead, name)
        if found is not None:
            typer.echo(f"{name} measured {found:.3f}, assumed {getattr(job.overhead, name):.3f}")
    if report.note:
        typer.echo(f"note: {report.note}")
    typer.echo(f"bill:    {place.bill}")
    if report.adapter is None:
        typer.echo("no adapter: training failed", err=True)
        raise typer.Exit(1)
    typer.echo(f"adapter: {report.adapter}/")


def _check_time(slot_seconds: float | None, *, model_time: bool) -> None:
    if slot_seconds is not None and model_time:
        raise InputError("--model-time", "is given with --slot-seconds", "one of the two")
    if slot_seconds is not None and not 0 < slot_seconds < inf:
        raise InputError("--slot-seconds", f"{slot_seconds:g}", "a number > 0")


def _check_given(job: Path | None, market: Path | None, out: Path | None) -> None:
    for place, given, expected in (
        ("JOB.toml", job, "a job file, or --resume DIR"),
        ("--market", market, "a market file"),
        ("--out", out, "a folder for what comes out"),
    ):
        if given is None:
            raise InputError(place, "is missing", expected)
