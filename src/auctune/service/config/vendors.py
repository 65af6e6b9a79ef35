"""Vendors in auctune.toml: the house, and those that are reached over HTTP."""

from decimal import Decimal
from typing import Annotated, Self

from pydantic import BaseModel, Field, model_validator

from auctune.domain import InputError
from auctune.run.vendors import RepairParams
from auctune.schema import STRICT
from auctune.service.config.fields import (
    Amount,
    Count,
    Name,
    NonNegative,
    Positive,
    RelativePath,
    Variable,
)
from auctune.service.config.secrets import read_secret, require_exactly_one
from auctune.service.vendors import HttpVendorParams, Secret
from auctune.service.vendors.params import MAX_POLL_SECONDS

# For a look at the URL alone: it is nobody's.
_NO_SECRET = Secret("-" * 32)


class HouseEntry(BaseModel):
    """[zones.house]: the vendor who works in a process of ours."""

    model_config = STRICT

    enabled: bool = Field(default=True, description="whether there is one")
    name: Name = Field(default="house", description="name of the vendor")
    price: Amount = Field(default=Decimal(0), description="money for a data set")
    price_per_row: Amount = Field(default=Decimal(0), description="money for a row, in addition")
    seconds: NonNegative = Field(
        default=0.0,
        description="time that its work takes, as it quotes it",
    )
    min_characters: Annotated[int, Field(ge=1)] = Field(
        default=2,
        description="shorter rows are left out",
    )
    max_characters: Count = Field(default=100_000, description="longer rows are left out")
    languages: list[str] = Field(
        default_factory=list,
        description="ISO 639 codes; rows in other languages are left out. Default: any language",
        examples=[["en", "de"]],
    )
    similarity: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.9, description="rows that are this similar to another row are left out, up to 1"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.params()
        return self

    def params(self) -> RepairParams:
        """What it does, and for how much.

        Raises:
            InputError: if it cannot be told that.
        """
        own = self.model_dump(exclude={"enabled", "seconds"})
        return RepairParams(**{**own, "languages": tuple(own["languages"]), "delay": 0})


class VendorEntry(BaseModel):
    """[[zones.vendors]]: a vendor that is reached over HTTP."""

    model_config = STRICT

    name: Name = Field(description="name of the vendor, other than that of the house")
    url: str = Field(description="where its routes begin: `https://`, or `http://` on this machine")
    secret_variable: Variable | None = Field(
        default=None,
        description="environment variable with the shared secret; or `secret_file`",
        examples=["AUCTUNE_MENDER_SECRET"],
    )
    secret_file: RelativePath | None = Field(
        default=None, description="file with the shared secret", examples=["mender.secret"]
    )
    answer_seconds: Positive = Field(
        default=30.0,
        description="seconds that it may take to accept, report or cancel an order, retries "
        "included",
    )
    poll_seconds: Annotated[float, Field(gt=0, le=MAX_POLL_SECONDS)] = Field(
        default=10.0,
        description="seconds that it may hold an answer back while it works, at most 20",
    )
    max_result_bytes: Count = Field(
        default=512 * 1024 * 1024,
        description="size of a repaired data set",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        require_exactly_one(secret_variable=self.secret_variable, secret_file=self.secret_file)
        self._with(_NO_SECRET)
        return self

    def params(self, place: str) -> HttpVendorParams:
        """What the market has to know of it, its secret included.

        Args:
            place: of this table, for errors.

        Raises:
            InputError: if the secret is not where it should be, or too short.
        """
        text = read_secret(place, self.secret_variable, self.secret_file)
        return self._with(Secret(text, f"{place}: the secret"))

    def _with(self, secret: Secret) -> HttpVendorParams:
        return HttpVendorParams(
            self.name,
            self.url,
            secret,
            answer_seconds=self.answer_seconds,
            poll_seconds=self.poll_seconds,
            max_result_bytes=self.max_result_bytes,
        )


def check_names(house: HouseEntry, vendors: list[VendorEntry]) -> None:
    """That no two vendors of a zone have one name.

    Raises:
        InputError: naming the second one.
    """
    seen = {house.name} if house.enabled else set()
    for index, vendor in enumerate(vendors):
        if vendor.name in seen:
            raise InputError(f"vendors[{index}].name", f"{vendor.name!r} is twice", "unique names")
        seen.add(vendor.name)
