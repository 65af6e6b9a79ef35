"""`auctune watch`: follow jobs until they end, with a progress bar each and a line per change."""

import time
from collections.abc import Mapping
from typing import Annotated, Self

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from auctune.cli._support.errors import INTERRUPTED
from auctune.cli._support.job_text import decision_text, end_text, format_time, state_text
from auctune.cli._support.options import option_groups
from auctune.cli._support.service import EXIT_REJECTED, ServiceOptions
from auctune.cli.trackers import TrackerOptions, Trackers
from auctune.client import Job
from auctune.client.watch import Disconnected, JobChanged
from auctune.client.watch import watch as follow


@option_groups
def watch(
    *,
    jobs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="JOB",
            help="Ids of jobs. Default: all your unfinished jobs.",
            show_default=False,
        ),
    ] = None,
    trackers: TrackerOptions,
    service: ServiceOptions,
) -> None:
    """Show the progress of jobs until all have ended.

    Reconnects if the service restarts. Ctrl-C stops watching; the jobs continue. Trackers get the
    metrics of all steps, of jobs that have ended too.
    """
    names = list(dict.fromkeys(jobs or ()))
    if not names:
        with service.connect() as client:
            unfinished = [job for job in client.jobs() if not job.is_over]
        # Jobs that end first come first, in case there are more jobs than streams.
        names = [job.id for job in sorted(unfinished, key=lambda job: job.ends_at)]
    if not names:
        typer.echo("no unfinished jobs")
        return
    with trackers.open() as opened:
        if not watch_jobs(dict.fromkeys(names), service, opened):
            raise typer.Exit(EXIT_REJECTED)


def watch_jobs(
    jobs: Mapping[str, Job | None], service: ServiceOptions, trackers: Trackers | None = None
) -> bool:
    """Show jobs until all have ended; return whether all succeeded. Ctrl-C stops the command only.

    `jobs` are the last shown records by id; `service` makes the clients; `trackers` get metrics.
    """
    succeeded: dict[str, bool] = {}
    try:
        with JobWatchDisplay() as display:
            updates = follow(jobs, service.connect, time.sleep, with_metrics=bool(trackers))
            for update in updates:
                if isinstance(update, JobChanged):
                    if trackers:
                        trackers.log(update)
                    display.show_change(update.before, update.job)
                    if update.job.is_over:
                        succeeded[update.job.id] = update.job.status == "succeeded"
                elif isinstance(update, Disconnected):
                    display.show_note(f"{update.reason}; retrying (Ctrl-C stops)")
                else:
                    display.show_note(f"{update.url} answers again")
    except KeyboardInterrupt:
        rest = [job for job in jobs if job not in succeeded]
        options = service.command_line
        typer.echo(f"the jobs continue; watch again with: auctune watch {' '.join(rest)}{options}")
        raise typer.Exit(INTERRUPTED) from None
    return all(succeeded.values())


class JobWatchDisplay:
    """Progress bars on a terminal, else lines; a context manager."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[state]}", markup=False),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def show_note(self, text: str) -> None:
        self._print(Text(text, style="yellow"))

    def show_change(self, before: Job | None, job: Job) -> None:
        """Show changes of a job's decision, notes, progress, pause or end."""
        if _has_decision(job) and not _has_decision(before):
            self._print(decision_text(job))
        shown = before.market["notes"] if before is not None else []
        for note in job.market["notes"]:
            if note not in shown:
                self.show_note(f"{job.name}: {note}")
        if job.is_over:
            if job.is_admitted or not _has_decision(job):
                self._print(end_text(job))
            if (bar := self._tasks.pop(job.id, None)) is not None:
                self._bars.remove_task(bar)
            return
        self._update_bar(job)
        progressed = before is not None and job.rows != before.rows
        toggled = _is_paused(job) != _is_paused(before)
        if (progressed or toggled) and not self._console.is_terminal:
            line = Text(job.name, style="bold").append(f" {state_text(job)}", style="not bold")
            self._print(line)

    def _update_bar(self, job: Job) -> None:
        rows, total = job.rows
        if job.id not in self._tasks:
            self._tasks[job.id] = self._bars.add_task(job.name, total=total or None, state="")
        bar = self._tasks[job.id]
        self._bars.update(bar, completed=rows, total=total or None, state=state_text(job))

    def _print(self, line: Text) -> None:
        stamped = Text(f"{format_time(time.time())}  ").append_text(line)
        self._console.print(stamped, soft_wrap=True)


def _has_decision(job: Job | None) -> bool:
    return job is not None and job.market["decision"] is not None


def _is_paused(job: Job | None) -> bool:
    return job is not None and job.market["state"] == "paused"
