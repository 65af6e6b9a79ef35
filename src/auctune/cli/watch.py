"""`auctune watch`: jobs to their end."""

from typing import Annotated

import typer

from auctune.cli.service_options import DATA, REFUSED, ApiKey, Data, Finder, Url


def watch(
    jobs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[JOB...]", help="Ids of jobs; none: all of one's own.", show_default=False
        ),
    ] = None,
    url: Url = None,
    api_key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """Show jobs until all are over.

    It outlives a service that is away for a while. Ctrl-C ends the watching, not the jobs.
    """
    connect = Finder(url, api_key, data)
    wanted = list(dict.fromkeys(jobs or ()))
    if not wanted:
        with connect() as client:
            under_way = [job for job in client.jobs() if not job.is_over]
        # Where there are more than can be watched at a time, the first to be over come first.
        wanted = [job.id for job in sorted(under_way, key=lambda job: job.ends_at)]
    if not wanted:
        typer.echo("no job is under way")
        return

    from auctune.cli.watched import watch_jobs

    if not watch_jobs(dict.fromkeys(wanted), connect):
        raise typer.Exit(REFUSED)
