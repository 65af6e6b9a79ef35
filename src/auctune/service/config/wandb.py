"""Settings of the runs of Weights & Biases that jobs are logged to."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from pydantic import BaseModel, Field, model_validator

from auctune.domain import InputError
from auctune.files.schema import STRICT
from auctune.service.config.fields import (
    URL,
    RelativePath,
    Variable,
    check_private,
    read_secret,
    require_exactly_one,
)
from auctune.service.jobs.request import Integration


class WandbConfig(BaseModel):
    """[wandb]: runs of Weights & Biases, for the `integrations` of requests."""

    model_config = STRICT

    key_variable: Variable | None = Field(
        default=None,
        description="environment variable with the API key of W&B, which the jobs of all users are "
        "logged with; or `key_file`, or `offline`. Without any of them requests with "
        "`integrations` are refused",
    )
    key_file: RelativePath | None = Field(
        default=None,
        description="file with the API key, which other accounts cannot open (`chmod 600`)",
    )
    offline: bool = Field(
        default=False,
        description="whether runs are written to files in the data folder instead, one folder a "
        "run: `wandb sync auctune-data/wandb/*/wandb/offline-run-*` sends them",
    )
    entity: str | None = Field(
        default=None,
        description="the only user or team of W&B whose projects requests may name. Default: any "
        "that the key may write to; a request that names none has the key's own",
    )
    base_url: str | None = Field(
        default=None,
        description="URL of a W&B server of your own, for a key. Default: W&B's cloud",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.is_enabled:
            require_exactly_one(
                key_variable=self.key_variable,
                key_file=self.key_file,
                offline=self.offline or None,
            )
        if self.base_url is not None and not URL.fullmatch(self.base_url):
            expected = "http://host[:port][/path] or https://..."
            raise InputError("base_url", repr(self.base_url), expected)
        return self

    @property
    def is_enabled(self) -> bool:
        """Return whether jobs are logged."""
        return self.offline or self.key_variable is not None or self.key_file is not None

    def check(self) -> None:
        """Check that the package is installed, and that the key can be read."""
        if self.is_enabled:
            spec = find_spec("wandb")
            # A folder of that name, such as that of W&B's own files, is no package.
            if spec is None or spec.origin is None:
                found = "needs wandb, which is not installed"
                raise InputError("wandb", found, "pip install wandb")
            self.environment()

    def environment(self) -> dict[str, str]:
        """Return the variables of the process that has the runs; the key is in no other place."""
        variables = {
            "WANDB_SILENT": "true",
            # Nothing of this machine is sent: neither its name and software nor its load.
            "WANDB_HOST": "auctune",
            "WANDB_X_DISABLE_META": "true",
            "WANDB_X_DISABLE_STATS": "true",
            "WANDB_X_SAVE_REQUIREMENTS": "false",
            "WANDB_DISABLE_GIT": "true",
            "WANDB_ERROR_REPORTING": "false",
        }
        if self.offline:
            return {**variables, "WANDB_MODE": "offline"}
        if self.key_file is not None:
            check_private("wandb.key_file", Path(self.key_file))
        key = read_secret("wandb", self.key_variable, self.key_file, what="key")
        url = {} if self.base_url is None else {"WANDB_BASE_URL": self.base_url}
        return {**variables, **url, "WANDB_MODE": "online", "WANDB_API_KEY": key}

    def check_request(self, integrations: Sequence[Integration] | None) -> None:
        """Refuse integrations of a request that jobs cannot be logged to."""
        if not integrations:
            return
        if not self.is_enabled:
            raise InputError(
                "integrations",
                "are not offered by this service",
                "none: an operator offers them by [wandb] in auctune.toml; without it "
                "`auctune watch JOB --wandb PROJECT` logs a job with your own key",
            )
        for index, one in enumerate(integrations):
            if self.entity is not None and one.wandb.entity not in (None, self.entity):
                place = f"integrations[{index}].wandb.entity"
                raise InputError(place, f"{one.wandb.entity!r}", f"{self.entity!r}, or none")
