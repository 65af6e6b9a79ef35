"""`auctune webhooks`: URLs that the service calls when a user's job ends or a budget is used."""

from typing import Annotated, Any

import typer

from auctune.cli._support.job_text import format_time
from auctune.cli._support.options import option_groups
from auctune.cli._support.service import ServiceJsonOptions, ServiceOptions
from auctune.cli._support.tables import make_table, print_table

webhooks = typer.Typer(
    help="Webhooks for the end of your jobs: list, add, delete.", rich_markup_mode=None
)


@webhooks.command("list")
@option_groups
def list_webhooks(service: ServiceJsonOptions) -> None:
    """List your webhooks; --json shows their secrets."""
    with service.connect() as client:
        hooks = client.webhooks()
    service.output(hooks, _print_webhooks)


@webhooks.command("add")
@option_groups
def add_webhook(
    address: Annotated[
        str, typer.Argument(metavar="ADDRESS", help="The URL to call.", show_default=False)
    ],
    service: ServiceJsonOptions,
) -> None:
    """Add a webhook, and show the secret that signs its requests."""
    with service.connect() as client:
        added = client.add_webhook(address)
    service.output(added, _print_added)


@webhooks.command("delete")
@option_groups
def delete_webhook(
    webhook: Annotated[
        str, typer.Argument(metavar="WEBHOOK", help="Id of the webhook.", show_default=False)
    ],
    service: ServiceOptions,
) -> None:
    """Delete a webhook."""
    with service.connect() as client:
        client.delete_webhook(webhook)
    typer.echo(f"deleted {webhook}")


def _print_webhooks(hooks: list[dict[str, Any]]) -> None:
    if not hooks:
        typer.echo("no webhooks yet")
        return
    table = make_table("webhook", "URL", "created")
    for hook in hooks:
        table.add_row(hook["id"], hook["url"], format_time(hook["created_at"]))
    print_table(table, optional=("created",))


def _print_added(webhook: dict[str, Any]) -> None:
    typer.echo(f"{webhook['id']} calls {webhook['url']}; its requests are signed with the secret")
    typer.echo(webhook["secret"])
