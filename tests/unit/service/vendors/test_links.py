from dataclasses import replace
from urllib.parse import parse_qsl, urlsplit

import pytest

from auctune.service.vendors import DataLinks, Secret

LINKS = DataLinks("https://market/vendor-data/", Secret("k" * 32), 60.0, lambda: 1000.0)


def parts(url: str) -> tuple[str, dict[str, str]]:
    split = urlsplit(url)
    return split.path.rpartition("/")[2], dict(parse_qsl(split.query))


def test_a_link_is_good_until_its_time_is_over() -> None:
    url = LINKS.make("mender & co", "ab" * 32)
    digest, query = parts(url)
    assert url.startswith(f"https://market/vendor-data/{'ab' * 32}?")
    assert LINKS.is_good(digest, query)
    assert replace(LINKS, clock=lambda: 1059.0).is_good(digest, query)
    assert not replace(LINKS, clock=lambda: 1060.0).is_good(digest, query)


@pytest.mark.parametrize(
    "changed",
    [{"vendor": "other"}, {"until": "9999"}, {"until": "x"}, {"signature": "0" * 64}],
)
def test_a_link_that_was_changed_is_not_good(changed: dict[str, str]) -> None:
    digest, query = parts(LINKS.make("mender", "ab" * 32))
    assert not LINKS.is_good(digest, {**query, **changed})
    assert not LINKS.is_good("cd" * 32, query)
    assert not LINKS.is_good(digest, {})


def test_another_key_makes_all_links_worthless() -> None:
    digest, query = parts(LINKS.make("mender", "ab" * 32))
    assert not replace(LINKS, key=Secret("m" * 32)).is_good(digest, query)
