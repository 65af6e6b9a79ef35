"""`auctune spot run`: train an adapter on instances of a replayed spot market."""

import re
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from auctune.cli._support.errors import require_extras
from auctune.cli._support.options import (
    Device,
    Dtype,
    changed_options,
    option_groups,
    refuse_combined,
)
from auctune.cli._support.runs import NewRunFolder, Resume, resumable, run_folder
from auctune.cli.spot.inputs import (
    FixedPrice,
    Forecast,
    OnePrice,
    Policy,
    Seed,
    check_prices,
    read_forecaster,
    read_policies,
)
from auctune.cli.spot.tables import in_money
from auctune.domain.errors import InputError
from auctune.engine.base_place import base_cache
from auctune.sim.spot.job_file import JobFile, read_job_file
from auctune.spot import SpotJob

if TYPE_CHECKING:
    from auctune.engine.spot.job_config import SpotRayParams
    from auctune.engine.spot.state import SpotEvent
    from auctune.standalone.spot import SpotRunFolder
    from auctune.standalone.spot_inputs import RunInputs
    from auctune.standalone.spot_report import SpotRunReport

# A finish this close after the deadline is a rounding error.
_SLACK = 1e-9

_ADDRESS = re.compile(r"[^\s/:]+:[0-9]{1,5}")
# Settings with an option of the same name.
_SETTINGS = ("policy", "forecast", "start", "threads", "device", "dtype")


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Options of the provider of instances."""

    provider: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Provider of instances: local processes, or ray, a cluster."
        ),
    ] = "local"
    ray_address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Address of the cluster's head. Default: start one here."
        ),
    ] = None
    availability: Annotated[
        str,
        typer.Option(
            metavar="SOURCE", help="Available spot instances: as in the market, or in the cluster."
        ),
    ] = "market"
    spot_resource: Annotated[
        str,
        typer.Option(metavar="NAME", help="Custom resource of Ray nodes for spot instances."),
    ] = "auctune:spot"
    on_demand_resource: Annotated[
        str,
        typer.Option(metavar="NAME", help="Custom resource of Ray nodes for on-demand instances."),
    ] = "auctune:on-demand"

    def params(self, *, warm: bool, device: str) -> "SpotRayParams | None":
        """Return the parameters of a cluster, or `None` for local processes."""
        if self.provider not in ("local", "ray"):
            raise InputError("--provider", f"{self.provider!r}", "local or ray")
        if self.provider == "local":
            changed = dict.fromkeys(changed_options(self), True)
            refuse_combined("--provider local", changed, "--provider ray")
            return None
        if self.availability not in ("market", "cluster"):
            raise InputError("--availability", f"{self.availability!r}", "market or cluster")
        if self.ray_address is not None and not _ADDRESS.fullmatch(self.ray_address):
            raise InputError("--ray-address", f"{self.ray_address!r}", "HOST:PORT")
        if warm:
            found = "cannot be combined with --provider ray"
            raise InputError("--warm", found, "no --warm, as each worker loads the model itself")
        if self.ray_address is not None and device.startswith("cuda:"):
            raise InputError(
                "--device", f"{device!r}", "cuda, as Ray assigns a GPU to each instance"
            )

        from auctune.engine.runtime.ray.params import check_ray
        from auctune.engine.spot.job_config import SpotRayParams

        check_ray("--provider ray")
        return SpotRayParams(
            self.ray_address,
            self.spot_resource,
            self.on_demand_resource,
            self.availability == "cluster",
        )


@option_groups
def run(
    context: typer.Context,
    *,
    job: Annotated[
        Path | None,
        typer.Argument(metavar="JOB.toml", help="The job, with [training].", show_default=False),
    ] = None,
    market: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The market to replay (CSV).")
    ] = None,
    out: NewRunFolder = None,
    resume: Resume = None,
    policy: Policy = "robust",
    forecast: Forecast = "chain",
    start: Annotated[int, typer.Option(help="Slot of the market in which the job starts.")] = 0,
    slot_seconds: Annotated[
        float | None,
        typer.Option(help="Slot length of the run. Default: as in the job's [market]."),
    ] = None,
    model_time: Annotated[
        bool,
        typer.Option("--model-time", help="Advance time by the job's model, without waiting."),
    ] = False,
    warm: Annotated[
        bool, typer.Option("--warm", help="Fork workers from a process that has the model loaded.")
    ] = False,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    threads: Annotated[int, typer.Option(help="CPU threads per worker.")] = 1,
    seed: Seed = 0,
    prices: OnePrice = None,
    fixed_price: FixedPrice = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Delete an earlier run in --out first.")
    ] = False,
    cluster: ClusterOptions,
) -> None:
    """Train an adapter on instances of a replayed spot market.

    Instances are rented slot by slot from a recorded market. An instance is a local process, or an
    actor of a Ray cluster. It is killed when the market preempts it, and counts as preempted when
    its machine is lost. Writes the adapter and the bill. Resume a run that was stopped or killed
    with --resume.
    """
    required = {
        "JOB.toml": (job, "a job file, or --resume DIR"),
        "--market": (market, "a market file"),
    }
    place = run_folder(context, out, resume, required)
    if model_time:
        refuse_combined(
            "--slot-seconds", {"--model-time": slot_seconds is not None}, "one of the two"
        )
    if slot_seconds is not None and not 0 < slot_seconds < inf:
        raise InputError("--slot-seconds", f"{slot_seconds:g}", "a number > 0")
    check_prices(prices, fixed_price)
    read_policies([policy])
    read_forecaster(forecast)
    require_extras("auctune spot run", "service", "train")
    console = Console(highlight=False)
    with console.status("starting"):
        from auctune.standalone.spot import SpotRunFolder
        from auctune.standalone.spot_inputs import RunSettings, find_inputs

    folder = SpotRunFolder(place)
    if job is None or market is None:
        _resume(folder, console)
        return
    real_seconds = slot_seconds or read_job_file(job).market.slot_seconds
    settings = RunSettings(
        policy=policy, forecast=forecast, start=start, warm=warm, seed=seed,
        slot_seconds=None if model_time else real_seconds,
        device=device, dtype=dtype, threads=threads, base="", fixed_price=fixed_price,
        ray=cluster.params(warm=warm, device=device),
    )  # fmt: skip
    _start(find_inputs(job, market, prices, settings), folder, console, fresh=fresh)


class RunDisplay:
    """Subscriber of a run: a line per slot, and a bar on a terminal.

    A context manager.
    """

    def __init__(self, job: SpotJob, console: Console) -> None:
        self._job, self._console = job, console
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>5.1f}%"),
            TextColumn("{task.fields[state]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("training", total=None, state="")
        self._cost = 0.0
        self._share = 0.0
        self._loss: float | None = None

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, event: "SpotEvent") -> None:
        from auctune.engine.spot import state

        match event:
            case state.SlotStarted(record):
                seen, held = record.observation, record.allocation
                self._cost = seen.cost + record.paid
                self._console.print(
                    f"slot {seen.slot:3d}  price {seen.price:.3f}, {seen.available} spot "
                    f"available; holds {held.on_demand} on-demand + {held.spot} spot; "
                    f"cost {self._cost:.3f}"
                )
            case state.RowsTrained(now, num_workers, progress):
                self._loss = progress.loss if progress.loss is not None else self._loss
                self._share = progress.rows / progress.total_rows
                text = f"{num_workers} workers, slot {now:.2f}, cost {self._cost:.3f}"
                self._bar.update(
                    self._task,
                    total=progress.total_rows,
                    completed=progress.rows,
                    state=f"{text}{self._loss_text()}",
                )
            case state.InstancesPreempted(now, count):
                self._console.print(f"          {count} spot preempted at {now:.2f}", style="red")
            case state.SlotFinished(record):
                pace = min(1.0, (record.observation.slot + 1) / self._job.deadline)
                self._console.print(
                    f"          {self._share:.1%} done, even pace {pace:.1%}{self._loss_text()}"
                )
            case state.OvertimeStarted(num_instances=count):
                self._console.print(
                    f"deadline  {1 - self._share:.1%} remains; {count} on-demand until done",
                    style="red",
                )
            case state.Warned(text) | state.DataNoted(text):
                self._console.print(text, style="yellow", markup=False)

    def _loss_text(self) -> str:
        return "" if self._loss is None else f", loss {self._loss:.3f}"


def _start(inputs: "RunInputs", folder: "SpotRunFolder", console: Console, *, fresh: bool) -> None:
    from auctune.standalone.spot import run_spot

    job, cache = inputs.read_job(), base_cache()
    try:
        with _resumable(folder), RunDisplay(job.spot_job(), console) as display:
            report = run_spot(inputs, folder, cache=cache, on_event=display, fresh=fresh)
    except InputError as error:
        if error.place in _SETTINGS:
            raise error.at(f"--{error.place}") from None
        raise
    _print_report(report, job, folder)


def _resume(folder: "SpotRunFolder", console: Console) -> None:
    from auctune.standalone.spot import read_job, resume_spot

    job = read_job(folder)
    with _resumable(folder), RunDisplay(job.spot_job(), console) as display:
        report = resume_spot(folder, cache=base_cache(), on_event=display)
    _print_report(report, job, folder)


def _resumable(folder: "SpotRunFolder") -> AbstractContextManager[None]:
    return resumable("spot run", folder.root, folder.exists)


def _print_report(report: "SpotRunReport", file: JobFile, folder: "SpotRunFolder") -> None:
    from auctune.engine.spot.overhead import assumed_overhead

    job, money, outcome = file.spot_job(), file.market, report.outcome
    when = "on time" if outcome.finish <= job.deadline + _SLACK else "late"
    typer.echo(f"done after {outcome.finish:.2f} of {job.deadline} slots, {when}")
    held = outcome.allocations
    typer.echo(
        f"rented {sum(one.on_demand for one in held)} on-demand and "
        f"{sum(one.spot for one in held)} spot GPU-slots; {report.num_preempted} preempted"
    )
    if outcome.ending_cost > 0:
        typer.echo(f"after the deadline, {job.n_max} on-demand: {outcome.ending_cost:.3f}")
    typer.echo(f"cost {outcome.cost:.3f}{in_money(outcome.cost, money)}")
    typer.echo(f"value {outcome.value:.3f}, utility {outcome.utility:.3f}")
    for name, assumed in assumed_overhead(job).items():
        measured = getattr(report.overhead, name)
        if measured is not None:
            typer.echo(f"{name} measured {measured:.3f}, assumed {assumed:.3f}")
    if report.note:
        typer.echo(f"note: {report.note}")
    typer.echo(f"bill:    {folder.report}")
    if report.adapter is None:
        typer.echo("no adapter: training failed", err=True)
        raise typer.Exit(1)
    typer.echo(f"adapter: {report.adapter}/")
