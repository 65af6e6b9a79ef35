"""The bodies that a market and a vendor exchange: docs/reference/vendor-protocol.md.

Keys that are not known here are ignored, so that either side may learn new ones first.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from auctune.domain.dataset import RowKind
from auctune.run.vendors import Action, DropReason

YEAR_SECONDS = 365 * 24 * 3600
MAX_OFFER_CHARACTERS = 200
MONEY = r"[0-9]{1,11}(?:\.[0-9]{1,4})?"

Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0, le=10**12)]
Seconds = Annotated[int, Field(ge=0, le=YEAR_SECONDS)]
Text = Annotated[str, Field(max_length=1000)]


class Body(BaseModel):
    """A JSON object with these keys, of these types and no others."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    def to_bytes(self) -> bytes:
        """As it is sent."""
        return self.model_dump_json().encode()


class DataBody(Body):
    """The data set, and where its bytes are."""

    format: Literal["jsonl"]
    rows: Count
    bytes: Count
    sha256: Sha256
    url: Annotated[str, Field(max_length=2000)]


class QuoteRequest(Body):
    """Market to vendor: what would this cost?"""

    data: DataBody
    answer_within_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)]


class OfferAnswer(Body):
    """Vendor to market: so much money, so much time; the offer stands for so long."""

    decision: Literal["offer"]
    offer: Annotated[str, Field(min_length=1, max_length=MAX_OFFER_CHARACTERS)]
    # Checked by hand: a price that is no money is a fault of its own.
    price: Any
    delay_seconds: Seconds
    valid_seconds: Seconds


class DeclineAnswer(Body):
    """Vendor to market: not this one."""

    decision: Literal["decline"]
    reason: Text


QuoteAnswer = Annotated[OfferAnswer | DeclineAnswer, Field(discriminator="decision")]


class OrderRequest(Body):
    """Market to vendor: do it."""

    offer: Annotated[str, Field(min_length=1, max_length=MAX_OFFER_CHARACTERS)]
    price: Annotated[str, Field(pattern=f"^{MONEY}$")]
    data: DataBody


class ResultBody(Body):
    """What is there to fetch."""

    bytes: Count
    sha256: Sha256


class OrderAnswer(Body):
    """Vendor to market: how far it is."""

    state: Literal["accepted", "needs_data", "done", "failed"]
    reason: Text = ""
    result: ResultBody | None = None


class ReasonAnswer(Body):
    """What any answer that is no success says."""

    reason: Text


class DroppedBody(Body):
    """A row that was left out."""

    line: Count
    reason: DropReason
    note: Text


class ExampleBody(Body):
    """A row that was mended."""

    line: Count
    actions: tuple[Action, ...]
    before: Text
    after: Text


class ReportBody(Body):
    """The account of a repair, as `RepairReport.to_json` writes it."""

    kind: RowKind
    rows_in: Count
    rows_out: Count
    actions: dict[Action, Count]
    dropped: tuple[DroppedBody, ...]
    examples: Annotated[tuple[ExampleBody, ...], Field(max_length=1000)]
