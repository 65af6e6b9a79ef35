"""Settings of vendors: the built-in one, and external ones, reached over HTTP."""

from decimal import Decimal
from pathlib import Path
from typing import Self

from pydantic import BaseModel, Field, model_validator

from auctune.engine.vendors import BUILTIN_VENDOR, RepairParams
from auctune.files.schema import STRICT
from auctune.service.config.fields import (
    Amount,
    Name,
    NonNegative,
    RelativePath,
    Variable,
    check_private,
    read_secret,
    require_exactly_one,
)
from auctune.service.vendors import VendorParams, VendorToken
from auctune.service.vendors.protocol import check_url


class BuiltinVendorConfig(BaseModel):
    """[zones.builtin_vendor]: the vendor that works in a process of the service."""

    model_config = STRICT

    enabled: bool = Field(default=True, description="whether there is one")
    price: Amount = Field(default=Decimal(0), description="money for a data set")
    price_per_row: Amount = Field(default=Decimal(0), description="money for a row, in addition")
    seconds: NonNegative = Field(
        default=0.0,
        description="delay that it promises",
    )
    languages: list[str] = Field(
        default_factory=list,
        description="ISO 639 codes; rows in other languages are left out. Default: any language",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.params()
        return self

    def params(self) -> RepairParams:
        """Return the parameters of the repair, and its price."""
        return RepairParams(
            BUILTIN_VENDOR,
            self.price,
            self.price_per_row,
            delay=0,
            languages=tuple(self.languages),
        )


class VendorConfig(BaseModel):
    """[[zones.vendors]]: an external vendor, reached over HTTP."""

    model_config = STRICT

    name: Name = Field(description="name of the vendor, unique in its zone")
    url: str = Field(
        description="where its routes begin: `https://`, or `http://` with a loopback address"
    )
    token_variable: Variable | None = Field(
        default=None,
        description="environment variable with the token shared with the vendor; or `token_file`",
    )
    token_file: RelativePath | None = Field(
        default=None,
        description="file with the token, which other accounts cannot open (`chmod 600`)",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        require_exactly_one(token_variable=self.token_variable, token_file=self.token_file)
        check_url(self.url, "url")
        return self

    def params(self, place: str) -> VendorParams:
        """Return the vendor's address and token; `place` is that of its table."""
        if self.token_file is not None:
            check_private(f"{place}.token_file", Path(self.token_file))
        text = read_secret(place, self.token_variable, self.token_file, what="token")
        return VendorParams(self.name, self.url, VendorToken(text, f"{place}: the token"))
