"""A real browser without a screen; tests that want one say aloud where there is none."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
_RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser for a block; the test is skipped where none is installed."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if path is None:
        pytest.skip("needs chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


def barriers(page: Page, *rules: str) -> list[str]:
    """What of a page axe finds hard to use, by all of its rules or by some."""
    only = {"type": "rule", "values": list(rules)} if rules else list(_RULES)
    # A chart is one picture with words of its own; its thousand shapes say nothing more.
    context = {"include": [["html"]], "exclude": [["[role=img] svg"]]}
    found: dict[str, Any] = Axe().run(page, context, {"runOnly": only}).response
    # So that it did look.
    assert len(found["passes"]) >= (len(rules) or 10)
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found["violations"]]
