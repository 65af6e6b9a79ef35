"""What is known of a job's data: how many samples lie at each site, and of what shape."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from auctune.domain import InputError
from auctune.run.data.image_rows import ImageFacts


@dataclass(frozen=True, slots=True)
class SiteFacts:
    """Of one job.

    Attributes:
        samples: by site.
        image: channels, height, width of each.
        classes: labels are below it.
    """

    samples: Mapping[str, int]
    image: tuple[int, int, int]
    classes: int

    @property
    def total(self) -> int:
        """Samples at all sites."""
        return sum(self.samples.values())

    @property
    def sample_bytes(self) -> int:
        """Of a sample as it crosses sites: a byte a number of its image, and its label's eight."""
        channels, height, width = self.image
        return channels * height * width + 8

    def to_record(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "SiteFacts":
        """What `to_record` gave, also by way of JSON."""
        channels, height, width = record["image"]
        return cls(record["samples"], (channels, height, width), record["classes"])


def facts_of(files: Mapping[str, ImageFacts], validation: ImageFacts | None) -> SiteFacts:
    """What several files are together.

    Args:
        files: what lies at each site.
        validation: what is measured by; none: nothing is.

    Raises:
        InputError: if their images differ in shape, or there is a class to be measured by only.
    """
    first = next(iter(files.values()))
    for site, one in files.items():
        if one.image != first.image:
            raise InputError(f"market.sites.{site}", _shape(one), f"as at others: {_shape(first)}")
    classes = max(one.classes for one in files.values())
    if validation is not None:
        if validation.image != first.image:
            raise InputError("validation_file", _shape(validation), _shape(first))
        if validation.classes > classes:
            found = f"has a label {validation.classes - 1}"
            raise InputError("validation_file", found, f"labels below {classes}")
    return SiteFacts({site: one.samples for site, one in files.items()}, first.image, classes)


def _shape(one: ImageFacts) -> str:
    return f"images of {' x '.join(map(str, one.image))}"
