"""The ledger as a cost-and-usage file of FOCUS 1.0 (https://focus.finops.org).

A row has the charges of a day (UTC) for one job, for answers of one model, or for storage, of one
user, team, key and zone; refunds have rows of their own. The sum of `BilledCost` over all months is
what users owe. Holds are not costs.

The team is that of the user when the job was submitted or the answer requested, as recorded then:
costs of past months stay as they are when a user changes teams.
"""

import csv
import io
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import Any

import orjson

from auctune.domain import InputError, Money
from auctune.domain.money import STEP, ZERO
from auctune.service.config.models import BillingConfig
from auctune.service.fair_queue import in_thread, in_turns
from auctune.service.ledger import user_account
from auctune.service.service import Service
from auctune.service.storage import Queries, Row, iter_pages
from auctune.service.storage.event_log import EventType
from auctune.service.storage.queries import Charge
from auctune.service.zones.core.events import GB_MONTH, StorageUsed, TokensUsed, adapter
from auctune.service.zones.core.projection import Usage

COLUMNS = (
    "AvailabilityZone",
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargeFrequency",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "CommitmentDiscountCategory",
    "CommitmentDiscountId",
    "CommitmentDiscountName",
    "CommitmentDiscountStatus",
    "CommitmentDiscountType",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedCost",
    "ContractedUnitPrice",
    "EffectiveCost",
    "InvoiceIssuerName",
    "ListCost",
    "ListUnitPrice",
    "PricingCategory",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "RegionId",
    "RegionName",
    "ResourceId",
    "ResourceName",
    "ResourceType",
    "ServiceCategory",
    "ServiceName",
    "SkuId",
    "SkuPriceId",
    "SubAccountId",
    "SubAccountName",
    "Tags",
    "x_Key",
    "x_User",
    "x_Zone",
    # The rules for 1.0 of focus-validator 1.0.0 require these, by earlier or display names.
    "ChargeType",
    "InvoiceIssuer",
    "Provider",
    "Publisher",
    "ResourceID",
)
"""Columns of the file; the columns of FOCUS 1.0 are first."""

_MONTH = re.compile(r"(19[7-9][0-9]|2[0-9]{3})-(0[1-9]|1[0-2])")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
# Text is the users'; a spreadsheet would compute cells that begin so.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_TAG = "auctune/"
_TOKENS = "Tokens"
_FILES, _GB_MONTHS = "files", "GB-Months"
# Each takes a thread some milliseconds.
_MAX_CHARGES, _MAX_ROWS = 500, 200


@dataclass(frozen=True, slots=True)
class Month:
    """A calendar month in UTC."""

    start: datetime

    @classmethod
    def parse(cls, text: str) -> "Month":
        """Return the month of a text such as 2026-11.

        Raises:
            InputError: if it is not one since 1970.
        """
        if not _MONTH.fullmatch(text):
            raise InputError("month", repr(text), "a month such as 2026-11")
        return cls(datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC))

    @classmethod
    def containing(cls, time: float) -> "Month":
        """Return the month of a unix time."""
        return cls.parse(f"{datetime.fromtimestamp(time, UTC):%Y-%m}")

    def __str__(self) -> str:
        return f"{self.start:%Y-%m}"

    @property
    def end(self) -> datetime:
        return (self.start + timedelta(days=31)).replace(day=1)


async def export(service: Service, month: Month, user: str | None) -> AsyncIterator[bytes]:
    """Yield the file of a month in parts: of one user, or of all if `user` is None."""
    yield _to_csv([dict(zip(COLUMNS, COLUMNS, strict=True))])
    if user is None:
        accounts = await in_thread(service.queries.accounts, user_account(""))
    else:
        accounts = [user_account(user)]
    for account in accounts:
        async for part in in_turns(_AccountCharges(service, account, month).export()):
            if part:
                yield part


class _Kind(StrEnum):
    """Kind of a row."""

    USAGE = "usage"
    REFUND = "refund"
    """Refund of charges of the same month."""
    CORRECTION = "correction"
    """Refund of charges of earlier months, whose files are written."""


class _Service(StrEnum):
    """Values of `ServiceName`."""

    TRAINING = "Fine-tuning"
    ANSWERS = "Answers"
    STORAGE = "File storage"


_RESOURCE_TYPES = {
    _Service.TRAINING: "Fine-tuning job",
    _Service.ANSWERS: "Model",
    _Service.STORAGE: "Files",
}


@dataclass(frozen=True, slots=True)
class _Resource:
    """A job, a model that answers, or all files, with who uses it.

    Attributes:
        zone: None for files, which are of no zone.
        name: the job's suffix.
        tags: the job's metadata.
    """

    service: _Service
    zone: str | None
    id: str
    team: str | None
    key: str | None
    name: str | None = field(default=None, compare=False)
    tags: Mapping[str, str] = field(default_factory=dict, compare=False)


def _job(row: Row) -> _Resource:
    request = orjson.loads(row.body)["request"]
    # The organization of a user without a team is the user.
    team = None if request["organization_id"] == row.owner else request["organization_id"]
    tags = request.get("metadata") or {}
    return _Resource(
        _Service.TRAINING, row.zone, row.id, team, request.get("key"), request.get("suffix"), tags
    )


@dataclass(slots=True)
class _Sum:
    amount: Money = ZERO
    quantity: float = 0.0
    unit: str | None = None
    is_fixed_price: bool = False

    def add(self, amount: Money, usage: Usage) -> None:
        self.amount += amount
        self.quantity += usage.quantity
        self.unit, self.is_fixed_price = usage.unit, usage.is_fixed_price


class _AccountCharges:
    """Charges of a user's account in a month."""

    def __init__(self, service: Service, account: str, month: Month) -> None:
        self._service = service
        self._account = account
        self._user = account.removeprefix(user_account(""))
        self._month = month
        self._jobs: dict[str, _Resource] = {}
        # By job: all charges of the month, which a refund takes back.
        self._paid: dict[str, _Sum] = {}
        # By day.
        self._sums: dict[datetime, dict[tuple[_Resource, _Kind], _Sum]] = {}

    def export(self) -> Iterator[bytes]:
        """Yield the rows of the account, by day, zone and resource, in parts that take little time.

        A part is empty for a page that was only read. All sums of the month are in memory: the
        last charge may be of the first row.
        """
        since, until = self._month.start.timestamp(), self._month.end.timestamp()
        queries = self._service.queries
        read = partial(queries.charges, self._account, since, until, _MAX_CHARGES)
        for page in iter_pages(read, key=lambda charge: charge):
            yield from self._load_jobs(queries, page.items)
            for charge in page.items:
                self._add(charge)
            yield b""
        rows = self._rows()
        while part := _to_csv(islice(rows, _MAX_ROWS)):
            yield part

    def _load_jobs(self, queries: Queries, charges: tuple[Charge, ...]) -> Iterator[bytes]:
        jobs = {one.event.job for one in charges if one.event.job is not None}
        missing = jobs - self._jobs.keys()
        for page in iter_pages(partial(queries.jobs_by_id, missing)) if missing else ():
            self._jobs |= {row.id: _job(row) for row in page.items}
            if page.has_more:
                yield b""

    def _add(self, charge: Charge) -> None:
        amount, event = charge.amount * STEP, charge.event
        body = orjson.loads(event.body)
        at = datetime.fromtimestamp(event.at, UTC)
        day = at.replace(hour=0, minute=0, second=0, microsecond=0)
        if event.type == EventType.STORAGE_USED:
            stored: StorageUsed = adapter(StorageUsed).validate_python(body)
            files = _Resource(_Service.STORAGE, None, _FILES, stored.team, None)
            usage = Usage(stored.byte_seconds / GB_MONTH, _GB_MONTHS, is_fixed_price=True)
            self._sum(day, files, _Kind.USAGE).add(amount, usage)
            return
        if event.job is None:
            used: TokensUsed = adapter(TokensUsed).validate_python(body)
            model = _Resource(_Service.ANSWERS, event.zone, used.model, used.team, used.key)
            num_tokens = used.prompt_tokens + used.completion_tokens
            usage = Usage(num_tokens, _TOKENS, is_fixed_price=True)
            self._sum(day, model, _Kind.USAGE).add(amount, usage)
            return
        job = self._jobs[event.job]
        if amount < ZERO:
            self._refund(day, job, -amount)
            return
        usage = self._service.projection(event.zone).usage(body, self._service.clock(event.zone))
        self._sum(day, job, _Kind.USAGE).add(amount, usage)
        self._paid.setdefault(job.id, _Sum()).add(amount, usage)

    def _refund(self, day: datetime, job: _Resource, amount: Money) -> None:
        """Take back charges of this month first; a refund of earlier ones is a correction."""
        paid = self._paid.get(job.id, _Sum())
        current = min(amount, paid.amount)
        if current:
            quantity = paid.quantity * float(current / paid.amount)
            assert paid.unit is not None
            usage = Usage(-quantity, paid.unit, paid.is_fixed_price)
            self._sum(day, job, _Kind.REFUND).add(-current, usage)
            paid.amount -= current
            paid.quantity -= quantity
        if amount > current:
            self._sum(day, job, _Kind.CORRECTION).amount -= amount - current

    def _sum(self, day: datetime, resource: _Resource, kind: _Kind) -> _Sum:
        return self._sums.setdefault(day, {}).setdefault((resource, kind), _Sum())

    def _rows(self) -> Iterator[dict[str, str | None]]:
        def place(item: tuple[tuple[_Resource, _Kind], _Sum]) -> tuple[Any, ...]:
            resource, kind = item[0]
            order = list(_Kind).index(kind)
            return resource.zone or "", resource.id, resource.key or "", resource.team or "", order

        for day, sums in sorted(self._sums.items()):
            # A day at a time, as others wait for the interpreter meanwhile.
            for (resource, kind), total in sorted(sums.items(), key=place):
                yield {
                    **_billing_columns(self._service.billing, self._month),
                    **_cost_columns(total),
                    **_resource_columns(resource, self._user, kind),
                    "ChargePeriodStart": _time(day),
                    "ChargePeriodEnd": _time(day + timedelta(days=1)),
                    "ChargeClass": "Correction" if kind is _Kind.CORRECTION else None,
                }


def _resource_columns(resource: _Resource, user: str, kind: _Kind) -> dict[str, str | None]:
    """Return the columns of what was sold, and to whom."""
    name = str(resource.service)
    text = name if resource.zone is None else f"{name} in zone {resource.zone}"
    sku = name.lower() if resource.zone is None else f"{resource.zone}/{name.lower()}"
    category = "Storage" if resource.service is _Service.STORAGE else "AI and Machine Learning"
    own = {"user": user, "key": resource.key, "zone": resource.zone}
    tags = {_TAG + name: value for name, value in own.items() if value is not None}
    return {
        "ChargeDescription": text if kind is _Kind.USAGE else f"Refund: {text}",
        "ResourceId": resource.id,
        "ResourceID": resource.id,
        "ResourceName": resource.name,
        "ResourceType": _RESOURCE_TYPES[resource.service],
        "ServiceCategory": category,
        "ServiceName": resource.service,
        "SkuId": sku,
        "SkuPriceId": sku,
        "SubAccountId": resource.team,
        "SubAccountName": resource.team,
        "Tags": orjson.dumps({**resource.tags, **tags}).decode(),
        "x_Key": resource.key,
        "x_User": user,
        "x_Zone": resource.zone,
    }


def _billing_columns(billing: BillingConfig, month: Month) -> dict[str, str]:
    """Return the columns that all rows have in common."""
    names = (
        "BillingAccountId",
        "BillingAccountName",
        "InvoiceIssuerName",
        "InvoiceIssuer",
        "ProviderName",
        "Provider",
        "PublisherName",
        "Publisher",
    )
    return {
        **dict.fromkeys(names, billing.name),
        "BillingCurrency": billing.currency,
        "BillingPeriodStart": _time(month.start),
        "BillingPeriodEnd": _time(month.end),
        "ChargeCategory": "Usage",
        "ChargeType": "Usage",
        "ChargeFrequency": "Usage-Based",
    }


def _cost_columns(total: _Sum) -> dict[str, str | None]:
    """Return costs, quantities and the mean price of a unit; a correction has the cost alone."""
    cost = f"{total.amount:.4f}"
    costs = dict.fromkeys(("BilledCost", "ContractedCost", "EffectiveCost", "ListCost"), cost)
    if total.unit is None:
        return {**costs}
    scale, pricing_unit = (1000, f"1000 {_TOKENS}") if total.unit == _TOKENS else (1, total.unit)
    priced = Decimal(f"{total.quantity / scale:.4f}")
    price = f"{total.amount / priced:.12f}" if priced else None
    return {
        **costs,
        "ConsumedQuantity": f"{total.quantity:.4f}",
        "ConsumedUnit": total.unit,
        "PricingQuantity": str(priced),
        "PricingUnit": pricing_unit,
        "PricingCategory": "Standard" if total.is_fixed_price else "Dynamic",
        "ContractedUnitPrice": price,
        "ListUnitPrice": price,
    }


def _time(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"


def _to_csv(rows: Iterable[Mapping[str, str | None]]) -> bytes:
    text = io.StringIO()
    safe = ({name: _safe_cell(value) for name, value in row.items()} for row in rows)
    csv.DictWriter(text, COLUMNS, restval=None, lineterminator="\n").writerows(safe)
    return text.getvalue().encode()


def _safe_cell(value: str | None) -> str | None:
    """Return a cell that spreadsheets do not take for a formula (OWASP, CSV injection)."""
    is_formula = value is not None and value.startswith(_FORMULA) and not _NUMBER.fullmatch(value)
    return f"'{value}" if is_formula else value
