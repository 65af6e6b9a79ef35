"""Settings of answers, and of the processes that generate them."""

import os
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from auctune.engine.generation import GeneratorSettings
from auctune.schema import STRICT
from auctune.service.config.fields import Amount, Count, Positive
from auctune.service.config.zone import LanguageZoneConfig, ZoneConfig


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
        examples=[2],
    )
    niceness: Annotated[int, Field(ge=0, le=19)] = Field(
        default=19,
        description="of a process on a shared CPU: the larger, the more sold slots come first",
    )
    sold_share: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.25,
        description="of its time, that a process on a CPU works while something trains on this "
        "machine, so that sold slots are not late; 1 if its `threads` are cores of its own",
    )
    max_batch: Annotated[int, Field(ge=1, le=4096)] = Field(
        default=16,
        description="per base: answers that are generated at once. Users share them: a free place "
        "goes to the user with the fewest",
    )
    max_waiting: Count = Field(
        default=100,
        description="per user and base: requests that wait for a place; beyond it 429",
    )
    price: Amount = Field(
        default=Decimal("0.0000"),
        description="money per 1,000 tokens, of prompts and of answers. With a price a request "
        "is charged to its user once it has been answered, and refused if it may cost more than "
        "is left of a budget; without one nothing is recorded",
    )
    idle_seconds: Positive = Field(
        default=600.0,
        description="time without a request after which a process ends, and frees its memory",
    )

    @property
    def num_threads(self) -> int:
        """Threads of each process on a CPU."""
        return self.threads or max(1, (os.cpu_count() or 1) // 2)

    def bases(self, zones: Iterable[ZoneConfig], cache: Path) -> dict[str, GeneratorSettings]:
        """Return the settings of the process of each base, by its name; of none if not enabled.

        A base of several zones is loaded as in the first.

        Args:
            cache: folder of bases that are built on this machine.
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
                    niceness=self.niceness,
                    sold_share=self.sold_share,
                    max_batch=self.max_batch,
                    # The digest of a base is that of its weights in their number type.
                    checks_base=not needs_gpu,
                )
        return found
