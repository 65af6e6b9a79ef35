"""The kind `fcfs`: settings, profiling before a start, and the loader of a zone."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from auctune.domain import InputError
from auctune.engine.base_facts import Alone, Report, learn_base
from auctune.engine.runtime.local import LocalLauncher
from auctune.engine.runtime.nodes import NodeSettings, node_workers
from auctune.engine.runtime.supervisor import Executor
from auctune.service.config.fields import Amount, RelativePath
from auctune.service.config.zone import DeviceRequirement, LanguageZoneConfig, ZoneRequirements
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.kind import (
    LanguageZoneLoader,
    ZoneKind,
    created_record,
    node_settings,
    read_optional_profile,
    slot_epoch,
)
from auctune.service.zones.core.worker import BaseProfiles, DataDirs
from auctune_fcfs.gateway import FcfsGateway
from auctune_fcfs.state import FcfsModel, FcfsState
from auctune_fcfs.worker import FcfsWorker
from auctune_fcfs.zone import FcfsZone


class FcfsConfig(LanguageZoneConfig):
    """[[zones]] of kind `fcfs`."""

    kind: Literal["fcfs"] = "fcfs"
    price: Amount = Field(default=Decimal("0.01"), description="money for 1,000 trained tokens")
    num_nodes: Annotated[int, Field(ge=1, le=64)] = Field(
        default=1, description="nodes of this machine, each a process that trains one job"
    )
    slots: Annotated[int, Field(ge=2, le=100_000)] = Field(
        default=1440, description="how many slots ahead a deadline may be"
    )
    device: str = Field(default="cpu", description="`cpu`, `cuda` or `cuda:N`")
    profile: RelativePath | None = Field(
        default=None, description="a file of `auctune profile`. Default: the device is measured"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.device != "cpu" and self.num_nodes > 1:
            raise InputError("num_nodes", f"{self.num_nodes} on {self.device}", "1: one per GPU")
        return self

    def requirements(self) -> ZoneRequirements:
        return ZoneRequirements((DeviceRequirement("", self.device, self.profile, self.num_nodes),))

    def files(self) -> Mapping[str, str]:
        return {} if self.profile is None else {"profile": self.profile}


class FcfsLoader(LanguageZoneLoader[FcfsConfig, FcfsZone, FcfsModel]):
    """Loader of a zone."""

    fixed_settings = ("base", "slot_seconds")

    def _current_settings(self) -> dict[str, Any]:
        return created_record(self.entry, {}, slot_epoch(self.entry, self.dependencies.now()))

    def _empty_model(self) -> FcfsModel:
        return FcfsModel(FcfsState(), None)

    @property
    def _nodes(self) -> list[str]:
        return [f"{self.entry.name}-{index}" for index in range(self.entry.num_nodes)]

    def _zone(self, model: FcfsModel) -> FcfsZone:
        entry, recorder = self.entry, self.dependencies.recorder
        return FcfsZone(entry.name, self.clock, model, recorder, entry.price, self._nodes)

    def _gateway(self, actor: ZoneActor[FcfsZone]) -> FcfsGateway:
        entry, profile = self.entry, self._base.profile
        context = self._gateway_context(actor, entry.slots, share=1.0)
        return FcfsGateway(context, entry.base, entry.num_nodes, profile)

    def _worker(self, actor: ZoneActor[FcfsZone]) -> FcfsWorker:
        shared, dirs = self.dependencies, self.dependencies.dirs
        settings = dict.fromkeys(self._nodes, _settings(self.entry, dirs))
        workers = node_workers(settings, dirs.logs)
        return FcfsWorker(
            actor,
            self.clock,
            lambda on_message: Executor(
                workers, LocalLauncher(workers, lock=shared.lock), on_message
            ),
            dirs.work(self.entry.name),
            shared,
        )


class FcfsKind(ZoneKind[FcfsConfig]):
    """Kind of zones that train jobs in order of arrival, at a fixed price."""

    config = FcfsConfig
    projection = FcfsState.projection
    loader = FcfsLoader

    def check(self, entry: FcfsConfig, place: str, now: float) -> None:
        read_optional_profile(entry.profile, entry)

    def profile(
        self, entry: FcfsConfig, dirs: DataDirs, report: Report, alone: Alone
    ) -> BaseProfiles:
        profile, settings = read_optional_profile(entry.profile, entry), _settings(entry, dirs)
        return {entry.device: learn_base(settings, dirs.profiles, report, profile, alone)}


def _settings(entry: FcfsConfig, dirs: DataDirs) -> NodeSettings:
    return node_settings(entry, dirs, entry.device)


KIND = FcfsKind()
