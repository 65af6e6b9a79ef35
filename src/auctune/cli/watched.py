"""Jobs on the terminal while they run: a bar each, and a line for what happens to them."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import typer

from auctune.cli.errors import INTERRUPTED
from auctune.cli.job_lines import clock, decision_line, end_line, state_words

if TYPE_CHECKING:
    from rich.progress import TaskID
    from rich.text import Text

    from auctune.client import Client, Job


def watch_jobs(jobs: "Mapping[str, Job | None]", connect: "Callable[[], Client]") -> bool:
    """Show jobs until all are over; whether all were done.

    Args:
        jobs: as they were shown already, by id; none: not yet.
        connect: a client of the service.

    Raises:
        typer.Exit: on Ctrl-C, which leaves the jobs running.
    """
    from auctune.client.watch import Changed, Lost, watch

    ended: dict[str, bool] = {}
    try:
        with _Bars() as bars:
            for news in watch(jobs, connect, time.sleep):
                if isinstance(news, Changed):
                    bars.changed(news.before, news.job)
                    if news.job.is_over:
                        ended[news.job.id] = news.job.status == "succeeded"
                elif isinstance(news, Lost):
                    bars.note(f"{news.reason}; trying again until it answers (Ctrl-C ends this)")
                else:
                    bars.note(f"{news.url} answers again")
    except KeyboardInterrupt:
        rest = [job for job in jobs if job not in ended]
        typer.echo(f"the jobs go on; watch them again with: auctune watch {' '.join(rest)}")
        raise typer.Exit(INTERRUPTED) from None
    return all(ended.values())


class _Bars:
    """A context; where there is no terminal it prints lines, and no bars."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._console = Console(highlight=False)
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[facts]}", markup=False),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> "_Bars":
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def note(self, text: str) -> None:
        """Something about the service."""
        from rich.text import Text

        self._print(Text(text, style="yellow"))

    def changed(self, before: "Job | None", job: "Job") -> None:
        """A job stands otherwise than before."""
        if _has_answer(job) and not _has_answer(before):
            self._print(decision_line(job))
        self._tell_notes(before, job)
        if job.is_over:
            if job.is_admitted or not _has_answer(job):
                self._print(end_line(job))
            if (bar := self._tasks.pop(job.id, None)) is not None:
                self._bars.remove_task(bar)
            return
        self._move(job)
        is_told = before is not None and job.rows != before.rows
        if (is_told or _is_paused(job) != _is_paused(before)) and not self._console.is_terminal:
            self._print(_line(job))

    def _tell_notes(self, before: "Job | None", job: "Job") -> None:
        known = before.market["notes"] if before is not None else []
        for note in job.market["notes"]:
            if note not in known:
                self.note(f"{job.name}: {note}")

    def _move(self, job: "Job") -> None:
        rows, total = job.rows
        if job.id not in self._tasks:
            self._tasks[job.id] = self._bars.add_task(job.name, total=total or None, facts="")
        bar = self._tasks[job.id]
        self._bars.update(bar, completed=rows, total=total or None, facts=state_words(job))

    def _print(self, line: "Text") -> None:
        from rich.text import Text

        self._console.print(Text(f"{clock(time.time())}  ").append_text(line), soft_wrap=True)


def _has_answer(job: "Job | None") -> bool:
    """Whether its bid was admitted or rejected; some end before that."""
    return job is not None and job.market["decision"] is not None


def _is_paused(job: "Job | None") -> bool:
    return job is not None and job.market["state"] == "paused"


def _line(job: "Job") -> "Text":
    from rich.text import Text

    return Text(job.name, style="bold").append(f" {state_words(job)}", style="not bold")
