"""A messenger, as the settings have it."""

from collections.abc import Callable
from pathlib import Path

from sqlalchemy import Engine

from auctune.service.news import News
from auctune.service.settings.service_file import ServiceFile
from auctune.service.store import Committer
from auctune.service.webhooks.hook import Hooks
from auctune.service.webhooks.messenger import Messenger, MessengerParams
from auctune.service.webhooks.signing import Signer, service_key

KEY = "webhook-key"


def open_messenger(
    file: ServiceFile,
    data: Path,
    reader: Engine,
    committer: Committer,
    news: News,
    now: Callable[[], float],
) -> Messenger:
    """Between the log and hooks; its key lies in the folder `data`."""
    wanted = file.webhooks
    return Messenger(
        [zone.name for zone in file.zones],
        Hooks(reader, committer, file.limits.webhooks, now),
        Signer(service_key(data / KEY)),
        reader,
        committer,
        news,
        now,
        MessengerParams(
            tries=wanted.tries,
            first_wait_seconds=wanted.first_wait_seconds,
            private_addresses=wanted.private_addresses,
        ),
    )
