"""`auctune webhooks`: addresses that are told when a job of one's own is over."""

from typing import Annotated

import typer

from auctune.cli.service_options import DATA, ApiKey, AsJson, Data, Finder, Url, print_json

webhooks = typer.Typer(
    help="Addresses told of the ends of jobs: list, add, delete.", rich_markup_mode=None
)

Address = Annotated[
    str, typer.Argument(metavar="ADDRESS", help="The URL that is told.", show_default=False)
]
WebhookId = Annotated[
    str, typer.Argument(metavar="WEBHOOK", help="The webhook's id.", show_default=False)
]


@webhooks.command("list")
def list_webhooks(
    as_json: AsJson = False, url: Url = None, api_key: ApiKey = None, data: Data = DATA
) -> None:
    """List one's own webhooks. Their secrets are in --json alone."""
    from auctune.cli.job_lines import clock
    from auctune.cli.wide import show, table_of

    with Finder(url, api_key, data)() as client:
        found = client.webhooks()
    if as_json:
        print_json(found)
        return
    if not found:
        typer.echo("no webhooks yet")
        return
    table = table_of("webhook", "address", "made")
    for hook in found:
        table.add_row(hook["id"], hook["url"], clock(hook["created_at"]))
    show(table, spare=("made",))


@webhooks.command("add")
def add_webhook(
    address: Address,
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """Have an address told of the ends of jobs.

    The secret with which it is told is shown.
    """
    with Finder(url, api_key, data)() as client:
        made = client.add_webhook(address)
    if as_json:
        print_json(made)
        return
    typer.echo(f"{made['id']} tells {made['url']}; what it sends is signed with the secret")
    typer.echo(made["secret"])


@webhooks.command("delete")
def delete_webhook(
    webhook: WebhookId, url: Url = None, api_key: ApiKey = None, data: Data = DATA
) -> None:
    """Have an address told nothing any more."""
    with Finder(url, api_key, data)() as client:
        client.delete_webhook(webhook)
    typer.echo(f"{webhook} is deleted")
