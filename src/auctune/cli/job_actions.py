"""`auctune cancel`, `pause` and `resume`: what an owner can do with a job under way."""

import typer

from auctune.cli.service_options import (
    DATA,
    ApiKey,
    AsJson,
    Data,
    Finder,
    JobId,
    Url,
    print_json,
)


def cancel(
    job: JobId,
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """End a job. Its slots to come go back to the market, and nothing is refunded."""
    _act(job, "cancel", Finder(url, api_key, data), as_json=as_json)


def pause(
    job: JobId,
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """Give up a job's slots to come, until it is resumed."""
    _act(job, "pause", Finder(url, api_key, data), as_json=as_json)


def resume(
    job: JobId,
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """Find a paused job new slots before its deadline. It pays no more."""
    _act(job, "resume", Finder(url, api_key, data), as_json=as_json)


def _act(job: str, action: str, connect: Finder, *, as_json: bool) -> None:
    from auctune.cli.job_lines import state_words

    with connect() as client:
        found = client.act(job, action)
    if as_json:
        print_json(found.record)
    else:
        typer.echo(f"{found.name}: {state_words(found)}")
