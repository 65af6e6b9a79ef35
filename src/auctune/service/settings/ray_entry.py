"""The cluster of a zone in auctune.toml."""

from typing import Annotated

from pydantic import BaseModel, StringConstraints

from auctune.run.executor import RayParams
from auctune.schema import STRICT
from auctune.service.settings.fields import Positive

_DEFAULT = RayParams()

Resource = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}$")]
Address = Annotated[str, StringConstraints(pattern=r"^[^\s/:]+:[0-9]{1,5}$")]


class RayEntry(BaseModel):
    """[zones.ray]."""

    model_config = STRICT

    address: Address | None = None
    lease_seconds: Positive = _DEFAULT.lease_seconds
    missing_seconds: Positive = _DEFAULT.missing_seconds

    def params(self) -> RayParams:
        """For an executor."""
        return RayParams(self.address, self.lease_seconds, self.missing_seconds)
