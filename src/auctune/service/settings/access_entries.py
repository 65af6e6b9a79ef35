"""First users and keys in auctune.toml: added where they are not known yet, and never changed."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, StringConstraints, model_validator

from auctune.domain import InputError
from auctune.schema import STRICT
from auctune.service.access.key import KnownKey, known_key
from auctune.service.settings.fields import Amount, Name, Positive
from auctune.service.settings.secret_source import check_one_source, read_secret

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class UserEntry(BaseModel):
    """[[users]]."""

    model_config = STRICT

    name: Name
    budget: Amount | None = None
    budget_days: Positive = 30.0


class KeyEntry(BaseModel):
    """[[keys]]: an API key, by its SHA-256, or where the key itself is."""

    model_config = STRICT

    user: Name
    role: Literal["user", "operator"] = "user"
    name: str = ""
    sha256: Digest | None = None
    secret_variable: str | None = None
    secret_file: str | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_one_source(
            sha256=self.sha256,
            secret_variable=self.secret_variable,
            secret_file=self.secret_file,
        )
        return self

    def key(self, place: str) -> KnownKey:
        """What is kept of it.

        Raises:
            InputError: if the key is not where it should be, or is too short to be one.
        """
        if self.sha256 is not None:
            return KnownKey(self.sha256, "")
        return known_key(read_secret(place, self.secret_variable, self.secret_file), place)

    def beside(self, folder: Path) -> "KeyEntry":
        """The same with a path that starts from a folder."""
        if self.secret_file is None:
            return self
        return self.model_copy(update={"secret_file": str(folder / self.secret_file)})


def check_users(users: list[UserEntry], keys: list[KeyEntry]) -> None:
    """That each user is there once, and each key somebody's.

    Raises:
        InputError: naming the first that is not.
    """
    names = [user.name for user in users]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InputError(f"users[{index}].name", f"{name!r} is there twice", "unique names")
    for index, key in enumerate(keys):
        if key.user not in names:
            raise InputError(f"keys[{index}].user", f"{key.user!r} is none of [[users]]", "a user")
