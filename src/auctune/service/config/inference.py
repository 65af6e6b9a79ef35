"""Settings of answers, and of the processes that generate them."""

import os
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from auctune.domain import InputError
from auctune.engine.generation import GeneratorSettings, VllmSettings
from auctune.engine.vllm_server import LORA_RANKS, check_vllm
from auctune.files.schema import STRICT
from auctune.service.config.fields import Amount, Positive, RelativePath
from auctune.service.config.zone import LanguageZoneConfig, ZoneConfig

NICENESS = 19
"""Niceness of a process that answers on the CPU: sold slots come first."""
SOLD_SHARE = 0.25
"""Share of the time that this process works while something trains on the machine: niceness leaves
the cores to sold slots, but not the memory's bandwidth. vLLM cannot pause; it works all the time.
"""


class VllmConfig(BaseModel):
    """[inference.vllm]: answers by vLLM."""

    model_config = STRICT

    python: RelativePath = Field(
        description="Python interpreter of an environment that has vLLM",
    )
    bases: list[str] | None = Field(
        default=None,
        description="bases that vLLM answers for, as zones name them; auctune's own engine answers "
        "for the others. Default: all",
    )
    max_rank: Annotated[int, Field(ge=1, le=LORA_RANKS[-1])] = Field(
        default=64,
        description="largest rank of adapters that answer. vLLM keeps room for `max_adapters` of "
        "this rank beside the base",
    )
    max_adapters: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=8,
        description="adapters that answer at once; a request for one more waits",
    )

    def answers_for(self, base: str) -> bool:
        """Return whether vLLM answers for a base, as zones name it."""
        return self.bases is None or base in self.bases


class InferenceConfig(BaseModel):
    """[inference]: answers of bases and fine-tuned models."""

    model_config = STRICT

    enabled: bool = Field(
        default=True,
        description="whether models answer. A process for each base starts with the first request "
        "for it, and loads the base once more, beside the nodes",
    )
    device: Annotated[str, Field(pattern=r"^(cpu|cuda(:\d+)?)$")] = Field(
        default="cpu",
        description="`cpu`, `cuda` or `cuda:N`. A GPU that a zone sells has less memory for its "
        "jobs then: leave it room, or give answers a GPU of their own",
    )
    threads: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        default=None,
        description="threads of a process on a CPU. Default: half of the cores of this machine",
    )
    max_batch: Annotated[int, Field(ge=1, le=4096)] = Field(
        default=16,
        description="per base: answers that are generated at once. Users share them by tokens: "
        "where others wait who were served less, answers of a user are paused",
    )
    price: Amount = Field(
        default=Decimal("0.0000"),
        description="money per 1,000 tokens, of prompts and of answers. With a price a request "
        "is charged to its user once it has been answered, and refused if it may cost more than "
        "is left of a budget; without one nothing is recorded",
    )
    cache_gb: Positive = Field(
        default=2.0,
        description="per base: memory for keys and values of the tokens of answers under way, of "
        "paused ones and their prompts. A single answer may take more; vLLM, which may not, "
        "answers with a shorter context where the base's does not fit",
    )
    vllm: VllmConfig | None = Field(
        default=None,
        description="[vLLM](../how-to/serve-with-vllm.md) instead of auctune's own engine: the "
        "table [inference.vllm]",
    )

    @property
    def num_threads(self) -> int:
        """Threads of each process on a CPU."""
        return self.threads or max(1, (os.cpu_count() or 1) // 2)

    def bases(
        self, zones: Iterable[ZoneConfig], cache: Path, digests: Mapping[str, str]
    ) -> dict[str, GeneratorSettings]:
        """Return the settings of the process of each base, by its name; of none if not enabled.

        A base of several zones is loaded as in the first.

        Args:
            cache: folder of bases that are built on this machine.
            digests: of the zones' bases, by zone.
        """
        found: dict[str, GeneratorSettings] = {}
        for zone in zones if self.enabled else ():
            if isinstance(zone, LanguageZoneConfig) and zone.base not in found:
                # Four bits need a GPU.
                needs_gpu = zone.dtype == "nf4" and self.device == "cpu"
                found[zone.base] = GeneratorSettings(
                    base=zone.base_source,
                    cache=cache,
                    device=self.device,
                    dtype="bfloat16" if needs_gpu else zone.dtype,
                    threads=self.num_threads,
                    niceness=NICENESS,
                    sold_share=SOLD_SHARE,
                    max_batch=self.max_batch,
                    max_cache_bytes=int(self.cache_gb * 1e9),
                    # The digest of a base is that of its weights in their number type.
                    checks_base=not needs_gpu,
                    vllm=self._vllm_settings(zone, digests[zone.name]),
                )
        return found

    def _vllm_settings(self, zone: LanguageZoneConfig, digest: str) -> VllmSettings | None:
        if self.vllm is None or not self.vllm.answers_for(zone.base):
            return None
        return VllmSettings(
            python=Path(self.vllm.python),
            base_digest=digest,
            max_rank=self.vllm.max_rank,
            max_adapters=self.vllm.max_adapters,
        )

    def check_vllm(self, zones: Iterable[ZoneConfig]) -> str | None:
        """Return the release of vLLM that answers, or None.

        Raises:
            InputError: if it, or one of its bases, cannot be used.
        """
        if self.vllm is None or not self.enabled:
            return None
        place = "inference.vllm"
        bases = {zone.base: zone for zone in zones if isinstance(zone, LanguageZoneConfig)}
        for name in self.vllm.bases or ():
            if name not in bases:
                raise InputError(f"{place}.bases", f"no zone has the base {name!r}", "zones' bases")
        for name, zone in bases.items():
            if self.vllm.answers_for(name) and (name == "tiny" or zone.dtype == "nf4"):
                kind = "a GPT-2" if name == "tiny" else "of dtype nf4"
                found = f"the base {name!r} is {kind}, for which vLLM has no adapters"
                raise InputError(f"{place}.bases", found, "bases without it")
        return check_vllm(Path(self.vllm.python), self.device, f"{place}.python")
