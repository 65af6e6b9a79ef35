"""Where the market stands that is soaked: its folder, its cluster, its vendors, its settings."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from auctune.service.private_files import write_private
from support.service_process import write_profile_for

TOKEN = "shared-with-two-vendors-" + "s" * 20
NODES = ("alpha", "beta", "gamma", "delta")
TOKENS_PER_SECOND = 250.0
BUDGET = "6.00"


@dataclass(frozen=True, slots=True)
class Site:
    """What settings of zones are made of.

    Attributes:
        folder: of settings, profile and data.
        cluster: address of the Ray cluster's head.
        vendors: addresses by name.
    """

    folder: Path
    cluster: str
    vendors: Mapping[str, str]

    @property
    def config(self) -> Path:
        """The service's settings."""
        return self.folder / "auctune.toml"

    @property
    def data(self) -> Path:
        """The service's data folder."""
        return self.folder / "data"


class HasSettings(Protocol):
    """A kind of zone, as far as its settings go."""

    def settings(self, site: Site) -> str:
        """Its table in auctune.toml."""
        ...


def write_site(site: Site, base_digest: str, kinds: Iterable[HasSettings]) -> Path:
    """Settings of a service with a zone of each kind; their place."""
    write_profile_for(site.folder, base_digest, TOKENS_PER_SECOND)
    write_private(site.folder / "vendor.token", TOKEN)
    site.config.write_text("\n".join(kind.settings(site) for kind in kinds), encoding="utf-8")
    return site.config
