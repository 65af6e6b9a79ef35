"""Vendors outside: whether something answers at their URLs. They are told nothing but that."""

from collections.abc import Iterator

from auctune.service.doctor.finding import Finding, ok, warn
from auctune.service.doctor.installation import Installation
from auctune.service.doctor.settings import unread

_ANSWER_SECONDS = 5.0


def look(at: Installation) -> Iterator[Finding]:
    """Each vendor's URL, where they may be asked."""
    if at.file is None:
        yield unread("vendors")
        return
    urls = {name: url for zone in at.zones for name, url in zone.needs().vendors.items()}
    if not urls:
        yield ok("vendors", "none outside")
    elif not at.online:
        yield ok("vendors", f"{len(urls)} outside, not asked: --online asks them")
    else:
        for name, url in urls.items():
            yield _asked(name, url)


def _asked(name: str, url: str) -> Finding:
    import httpx2

    try:
        # What it answers to a stranger is its own matter: that it answers is enough.
        status = httpx2.get(url, timeout=_ANSWER_SECONDS).status_code
    except httpx2.HTTPError as error:
        said = f"{name} at {url} does not answer ({type(error).__name__}: {error})"
        return warn("vendors", said, "url in zones.vendors, or the vendor: it is left out of bids")
    return ok("vendors", f"{name} at {url} answers ({status})")
