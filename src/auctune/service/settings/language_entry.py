"""What zones say of themselves that train adapters of a language model."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, PrivateAttr

from auctune.domain.base_name import resolve_base
from auctune.domain.dataset import DEFAULT_MAX_LENGTH
from auctune.service.settings.fields import Count, Positive
from auctune.service.settings.zone_entry import ZoneEntry


class LanguageZoneEntry(ZoneEntry):
    """[[zones]]: the keys of kinds that have such a base."""

    base: str = "tiny"
    dtype: Literal["float32", "bfloat16"] = "float32"
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    max_length: Count = DEFAULT_MAX_LENGTH
    measure_seconds: Positive = 90.0

    _folder: Path = PrivateAttr(default_factory=Path)

    @property
    def base_folder(self) -> Path:
        """The folder of the settings' file; without one the working directory."""
        return self._folder

    @property
    def base_source(self) -> str:
        """The base's name for processes; `base` as it was typed is the model that owners name.

        Raises:
            InputError: if there is no such base.
        """
        return resolve_base(self.base, self._folder)

    def beside(self, folder: Path) -> Self:
        """The same with paths that start from a folder."""
        copied = self.model_copy()
        copied._folder = folder
        return copied

    @property
    def needed_base(self) -> str | None:
        """The base itself."""
        return self.base
