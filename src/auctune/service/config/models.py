"""Pydantic models of auctune.toml, and its reader."""

import ipaddress
import tomllib
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, StringConstraints, model_validator

from auctune.domain import InputError
from auctune.domain.dataset import DEFAULT_MAX_ROW_CHARACTERS
from auctune.domain.money import ZERO
from auctune.files.device_profile import physical_devices
from auctune.files.schema import STRICT, ByKind, check_schema
from auctune.registry.third_party import ZONE_KINDS, load_entry, third_party_names
from auctune.service.accounts.registry import NO_TERMS, DefaultTerms, HashedKey, hash_existing_key
from auctune.service.config.auction import AuctionConfig
from auctune.service.config.edge import EdgeConfig
from auctune.service.config.fields import (
    URL,
    Amount,
    Count,
    Name,
    Positive,
    RelativePath,
    check_unique,
    read_secret,
    require_exactly_one,
)
from auctune.service.config.fixed_values import FIXED_VALUES
from auctune.service.config.inference import InferenceConfig
from auctune.service.config.spot import SpotConfig
from auctune.service.config.timeshare import TimeshareConfig
from auctune.service.config.wandb import WandbConfig
from auctune.service.config.zone import AUCTION, EDGE, SPOT, TIMESHARE, ZoneConfig
from auctune.service.jobs.request import PREFIX
from auctune.service.vendors.protocol import check_url

_KINDS = {AUCTION: AuctionConfig, SPOT: SpotConfig, TIMESHARE: TimeshareConfig, EDGE: EdgeConfig}


def _find_config(kind: str) -> type[ZoneConfig]:
    """Return the settings model of a kind that an installed package offers."""
    expected = "a ZoneKind with a `config`"
    loaded = load_entry(ZONE_KINDS, kind, _KINDS, "kind", expected)
    if loaded is None:
        known = dict.fromkeys((*_KINDS, *third_party_names(ZONE_KINDS)))
        raise InputError("kind", f"{kind!r} is unknown", f"one of {', '.join(known)}")
    offered, who = loaded
    config = getattr(offered, "config", None)
    if not (isinstance(config, type) and issubclass(config, ZoneConfig)):
        raise InputError("kind", f"{who} has config {config!r}", "a subclass of ZoneConfig")
    return config


AnyZone = Annotated[ZoneConfig, ByKind(_KINDS, AUCTION, _find_config)]
"""A zone of any kind; its key `kind` determines its other keys."""

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Bytes = Annotated[int, Field(ge=1, le=10**15)]


class UserConfig(BaseModel):
    """[[users]]: added when the service starts and does not know the name; never changed."""

    model_config = STRICT

    name: Name = Field(description="name of the user")
    budget: Amount | None = Field(
        default=None,
        description="money that may be spent in `budget_days`. Default: no limit",
    )
    budget_days: Positive = Field(default=30.0, description="period of the budget, in days")
    default_terms: DefaultTerms | None = Field(
        default=None,
        description="terms of the user's requests that do not state them, with the keys of "
        "`[default_terms]`. Default: those of its team, or of the service",
    )


class KeyConfig(BaseModel):
    """[[keys]]: an API key, by its SHA-256 or by where the key itself is; added like users."""

    model_config = STRICT

    user: Name = Field(description="one of `[[users]]`")
    role: Literal["user", "operator"] = Field(default="user", description="`user` or `operator`")
    name: str = Field(default="", description="name of the key in lists")
    sha256: Digest | None = Field(
        default=None,
        description="SHA-256 of the key, 64 hexadecimal digits",
    )
    secret_variable: str | None = Field(
        default=None,
        description="environment variable with the key, at least 32 characters",
    )
    secret_file: RelativePath | None = Field(
        default=None,
        description="file with the key",
    )
    default_terms: DefaultTerms | None = Field(
        default=None,
        description="terms of the key's requests that do not state them, with the keys of "
        "`[default_terms]`. Default: those of its user",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        require_exactly_one(
            sha256=self.sha256,
            secret_variable=self.secret_variable,
            secret_file=self.secret_file,
        )
        return self

    def key(self, place: str) -> HashedKey:
        """Return the hash of the key; `place` is that of its table, for errors."""
        if self.sha256 is not None:
            return HashedKey(self.sha256, "")
        return hash_existing_key(read_secret(place, self.secret_variable, self.secret_file), place)


class LimitsConfig(BaseModel):
    """[limits]: of API keys, users and files."""

    model_config = STRICT

    requests_per_second: Positive = Field(
        default=300.0,
        description="per key: requests per second, in the long run. One process answers 400 bids a "
        "second on two slow cores: raise it where a few trusted keys send all requests",
    )
    open_jobs: Count = Field(default=10_000, description="per user: jobs that are not over")
    upload_bytes: Count = Field(default=512 * 1024 * 1024, description="size of an uploaded file")
    row_characters: Count = Field(
        default=DEFAULT_MAX_ROW_CHARACTERS,
        description="length of a row's line in an uploaded file; a file with a longer one is "
        "refused. Raise it for a base that reads more than about 60,000 tokens. One core tokenizes "
        "this many characters in about half a second",
    )
    files: Count = Field(default=10_000, description="per user: files, results included")
    stored_bytes: Bytes = Field(default=50 * 1024**3, description="per user: bytes of all files")
    team_weights: dict[Name, Positive] = Field(
        default={},
        description="by team: with 2 each of its users gets twice as much as a user of another "
        "team of what all share, while more is wanted than there is",
    )
    bids_per_day: Count = Field(
        default=100_000,
        description="per user: bids, accepted quotes, pauses and resumes, whatever their outcome, "
        "as each is kept forever. A token bucket: as many at once, refilled within a day; beyond "
        "it 429 with `Retry-After`",
    )


MAX_DAYS = 36_500
"""For which files may be kept and then deleted: a century."""


class FilesConfig(BaseModel):
    """[files]: how long files are kept, and what that costs."""

    model_config = STRICT

    data_days: Positive | None = Field(
        default=None,
        le=MAX_DAYS,
        description="after how many days an upload without `expires_after` is deleted. A change "
        "holds for later uploads. Default: never",
    )
    results_days: Positive | None = Field(
        default=None,
        le=MAX_DAYS,
        description="after how many days the results of a job, adapters, checkpoints and metrics, "
        "are deleted. A change holds for results that are stored later. Default: never",
    )
    price_per_gb_month: Amount = Field(
        default=ZERO,
        description="money for 10^9 bytes that are stored for 30 days, charged to the owner for "
        "each day (UTC) by bytes and seconds. A change holds from the start of the service with "
        "it. 0: free",
    )


class WebhooksConfig(BaseModel):
    """[webhooks]: notifications of jobs that have ended, and of budgets."""

    model_config = STRICT

    private_addresses: bool = Field(
        default=False,
        description="whether webhooks may be in private networks; users can then reach what runs "
        "beside the service",
    )


CURRENCY = r"^[A-Z]{3}$"
CREDITS = "XXX"
"""Code of no currency."""


class BillingConfig(BaseModel):
    """[billing]: of files with costs, for other departments and their tools."""

    model_config = STRICT

    currency: Annotated[str, StringConstraints(pattern=CURRENCY)] = Field(
        default=CREDITS,
        description="currency of all amounts, as its code of ISO 4217; `XXX` is the code of no "
        "currency: amounts are credits",
    )
    name: Annotated[str, StringConstraints(pattern=r"^\S(.{0,98}\S)?$")] = Field(
        default="auctune",
        description="name of this service as provider, invoice issuer and billing account. Choose "
        "another for each of several services whose costs are put together",
    )


def _one_zone() -> list[ZoneConfig]:
    return [AuctionConfig()]


class ServiceConfig(BaseModel):
    """All settings of auctune.toml."""

    model_config = STRICT

    database: str | None = Field(
        default=None,
        description="URL of the database, `sqlite:///FILE` or `postgresql://...`; a password is "
        "better left to `~/.pgpass` than written here. Default: `auctune.db` in the data folder",
    )
    public_url: str | None = Field(
        default=None,
        description="URL at which external vendors reach the service: `https://`, or loopback. "
        "Default: the address at which it listens",
    )
    host: str = Field(
        default="127.0.0.1",
        description="address to listen at. An address that other machines reach needs a proxy with "
        "TLS in front",
    )
    port: Annotated[int, Field(ge=0, le=65_535)] = Field(
        default=8420, description="port to listen at; 0: any free port"
    )
    trusted_proxies: list[str] = Field(
        default_factory=list,
        description="IP addresses or networks of reverse proxies. `X-Forwarded-For` and "
        "`X-Forwarded-Proto` are believed from them alone: which address fails to sign in or sends "
        "requests without a key, and whether the browser uses TLS",
    )
    limits: LimitsConfig = Field(default=LimitsConfig(), description="limits of keys and users")
    files: FilesConfig = Field(
        default=FilesConfig(), description="how long files are kept, and their price"
    )
    webhooks: WebhooksConfig = Field(
        default=WebhooksConfig(),
        description="notifications of jobs that have ended",
    )
    model_aliases: dict[str, str] = Field(
        default_factory=dict,
        description="other names of models that requests may use, each for the base of a zone; a "
        "job shows the base. With them a script that names OpenAI's models runs unchanged",
    )
    default_terms: DefaultTerms = Field(
        default=NO_TERMS, description="terms of requests that do not state them"
    )
    inference: InferenceConfig = Field(
        default=InferenceConfig(), description="answers of bases and fine-tuned models"
    )
    billing: BillingConfig = Field(
        default=BillingConfig(), description="currency and name in files with costs"
    )
    wandb: WandbConfig = Field(
        default=WandbConfig(), description="runs of Weights & Biases that jobs are logged to"
    )
    zones: Annotated[list[AnyZone], Field(min_length=1)] = Field(
        default_factory=_one_zone,
        description="what is sold. Default: one zone of kind `auction`",
    )
    users: list[UserConfig] = Field(default_factory=list, description="first users")
    keys: list[KeyConfig] = Field(default_factory=list, description="first API keys")

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_unique("zones", "name", [zone.name for zone in self.zones])
        _check_gpus(self.zones)
        check_unique("users", "name", [user.name for user in self.users])
        for index, key in enumerate(self.keys):
            if all(key.user != user.name for user in self.users):
                raise InputError(
                    f"keys[{index}].user", f"{key.user!r} is unknown", "one of [[users]]"
                )
        self._check_aliases()
        self._check_default_zones()
        if self.public_url is not None and not URL.fullmatch(self.public_url):
            expected = "http://host[:port][/path] or https://..., as vendors reach this service"
            raise InputError("public_url", repr(self.public_url), expected)
        if self.public_url is not None and any(z.requirements().vendors for z in self.zones):
            check_url(self.public_url, "public_url")
        _check_proxies(self.trusted_proxies)
        return self

    def _check_aliases(self) -> None:
        bases = list(dict.fromkeys(zone.base for zone in self.zones))
        for alias, base in self.model_aliases.items():
            place = f"model_aliases.{alias}"
            if base not in bases:
                expected = f"the base of a zone: {' or '.join(bases)}"
                raise InputError(place, f"{base!r} is unknown", expected)
            if alias in bases or alias.startswith(PREFIX):
                what = "a base" if alias in bases else "a fine-tuned model"
                raise InputError(place, f"is the name of {what}", "another name")

    def _check_default_zones(self) -> None:
        names = [zone.name for zone in self.zones]
        listed = [("default_terms", self.default_terms)]
        for table, owners in (("users", self.users), ("keys", self.keys)):
            for index, owner in enumerate(owners):
                assert isinstance(owner, UserConfig | KeyConfig)
                listed.append((f"{table}[{index}].default_terms", owner.default_terms or NO_TERMS))
        for place, terms in listed:
            if terms.zone not in (None, *names):
                expected = f"one of {', '.join(names)}"
                raise InputError(f"{place}.zone", f"{terms.zone!r} is unknown", expected)


FIRST_TERMS = DefaultTerms(bid=Decimal("10.00"), deadline="+4h")
"""Default terms of the settings that `auctune init` writes, and of a service without a file."""

_OPENAI_MODELS = (
    "gpt-4.1-2025-04-14",
    "gpt-4.1",
    "gpt-4.1-mini-2025-04-14",
    "gpt-4.1-mini",
    "gpt-4.1-nano-2025-04-14",
    "gpt-4.1-nano",
    "gpt-4o-2024-08-06",
    "gpt-4o",
    "gpt-4o-mini-2024-07-18",
    "gpt-4o-mini",
    "gpt-3.5-turbo-0125",
    "gpt-3.5-turbo",
    "babbage-002",
    "davinci-002",
)


def first_config() -> ServiceConfig:
    """Return the settings of a service without a file: OpenAI's scripts run on it unchanged."""
    aliases = dict.fromkeys(_OPENAI_MODELS, AuctionConfig().base)
    return ServiceConfig(model_aliases=aliases, default_terms=FIRST_TERMS)


def read_config(path: Path) -> ServiceConfig:
    """Read a settings file; relative paths in it start from its folder."""
    try:
        table: Any = tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
        raise InputError(str(path), reason, "a file in TOML, as `auctune init` writes it") from None
    except ValueError as error:
        raise InputError(str(path), f"is not TOML ({error})", "a file in TOML") from None
    fixed = {key: value for key, (value, _) in FIXED_VALUES.items()}
    return check_schema(ServiceConfig, table, str(path), context=path.parent, fixed=fixed)


def _check_gpus(zones: Sequence[ZoneConfig]) -> None:
    """Refuse a GPU of this machine in two zones: each would sell all of its time and memory."""
    owners: dict[str, str] = {}
    for index, zone in enumerate(zones):
        for requirement in zone.requirements().devices:
            place = f"zones[{index}].{requirement.place}".rstrip(".")
            for device in physical_devices(requirement.device, requirement.num_devices):
                if device.startswith("cuda") and owners.setdefault(device, zone.name) != zone.name:
                    found = f"{device!r} is already used by zone {owners[device]}"
                    raise InputError(f"{place}.device", found, "a GPU in one zone only")


def _check_proxies(proxies: list[str]) -> None:
    for index, proxy in enumerate(proxies):
        try:
            ipaddress.ip_network(proxy)
        except ValueError:
            expected = "an IP address, or a network such as 10.0.0.0/8"
            raise InputError(f"trusted_proxies[{index}]", repr(proxy), expected) from None
