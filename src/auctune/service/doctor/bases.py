"""The bases that zones sell: there, to be built, or to be fetched. Nothing is fetched here."""

from collections.abc import Iterator
from pathlib import Path

from auctune.run.base_place import BaseKind, base_place
from auctune.service.doctor.finding import Finding, ok, wrong
from auctune.service.doctor.installation import Installation
from auctune.service.doctor.settings import unread
from auctune.service.doctor.writing import why_not_written


def look(at: Installation) -> Iterator[Finding]:
    """Each base of the settings."""
    if at.file is None:
        yield unread("bases")
        return
    needed = ((zone.needed_base, zone.base_folder) for zone in at.zones)
    for name, beside in dict.fromkeys(needed):
        if name is not None:
            yield _judged(name, at.cache, beside)


def _judged(name: str, cache: Path, beside: Path) -> Finding:
    place = base_place(name, cache, beside)
    if place.kind == BaseKind.TINY and place.folder is None:
        reason = why_not_written(cache)
        if reason is not None:
            said = f"{name} cannot be built: {cache} cannot be written ({reason})"
            return wrong("bases", said, "XDG_CACHE_HOME=FOLDER, one that may be written")
        return ok("bases", f"{name} is not built yet: the first start does that, in seconds")
    if place.kind == BaseKind.HUB:
        return ok("bases", f"{name} is a model on the hub: fetched at the first start")
    if place.kind == BaseKind.UNKNOWN or place.folder is None:
        said = f"{name}: there is no such folder"
        return wrong("bases", said, "base in auctune.toml: a folder beside it, or hub:ORG/NAME")
    if not (place.folder / "config.json").is_file():
        mend = "base in auctune.toml: a folder that transformers can load"
        return wrong("bases", f"{place.folder} has no config.json", mend)
    if not place.num_bytes:
        mend = "base in auctune.toml: a folder with model.safetensors"
        return wrong("bases", f"{place.folder} has no weights", mend)
    return ok("bases", f"{name} is in {place.folder}: {place.num_bytes / 1e6:,.0f} MB")
