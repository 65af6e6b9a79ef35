"""The page in a real browser: a job from sign-in to its adapter, the keyboard, the eye."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from support.browser import barriers, chromium
from support.serving import ROWS, Served, make_file, make_zone, serving
from support.thorough import THOROUGH
from support.waits import WAIT_MS

pytestmark = pytest.mark.slow

WIDTHS = (390, 1280)
TOO_WIDE = "(root => root.scrollWidth - root.clientWidth)(document.documentElement)"
Scheme = Literal["light", "dark"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("market"), make_file([make_zone(slots=21)])) as opened:
        yield opened


# A browser that listens would hold up the end of what it listens to: it is closed first.
@pytest.fixture(scope="module")
def browser(served: Served) -> Iterator[Browser]:
    expect.set_options(timeout=WAIT_MS)
    with chromium() as found:
        yield found


@contextmanager
def opened(browser: Browser, served: Served, key: str, scheme: Scheme = "light") -> Iterator[Page]:
    """A page of somebody who signed in; at its end the browser must have had no complaint."""
    with browser.new_context(color_scheme=scheme) as context:
        context.set_default_timeout(WAIT_MS)
        page = context.new_page()
        complaints: list[str] = []

        def note(said: ConsoleMessage) -> None:
            if said.type == "error":
                complaints.append(said.text)

        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", note)
        page.goto(served.url)
        page.get_by_label("API key").fill(key)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).not_to_have_text("Sign in")
        yield page
        assert complaints == []


def test_a_job_from_sign_in_to_its_adapter(
    browser: Browser, served: Served, tmp_path: Path
) -> None:
    data = tmp_path / "weather.jsonl"
    data.write_text(ROWS)
    with opened(browser, served, served.key("ada")) as page:
        page.get_by_role("link", name="New job").first.click()
        page.get_by_label("File", exact=True).set_input_files(data)
        page.get_by_role("button", name="Upload").click()
        expect(page.get_by_label("Data", exact=True)).to_have_value(re.compile("file-.+"))
        page.get_by_label("Deadline").fill("+20m")
        page.get_by_role("button", name="Show prices").click()
        page.get_by_role("button", name="Accept line 0").click()
        expect(page.get_by_role("status")).to_have_text("planned")
        job = page.url.rpartition("/")[2]
        heading = page.get_by_role("heading", name="The adapter is ready")
        expect(heading).to_have_count(0)
        # Nobody loads the page again: it hears of what happens, and shows it.
        page.get_by_text("Cancel", exact=True).click()
        assert page.locator("progress").get_attribute("value") == "0"
        served.train(job, 40)
        expect(page.get_by_role("status")).to_have_text("training")
        expect(page.get_by_role("button", name="Cancel permanently")).to_be_visible()
        served.train(job, 80)
        expect(page.get_by_text("80 of 150 rows, ")).to_be_visible()
        assert page.locator("progress").get_attribute("value") == "80"
        # One loss makes no curve.
        expect(page.get_by_text("Loss by trained rows")).to_be_visible()
        served.finish(job, "ada")
        expect(page.get_by_role("status")).to_have_text("done")
        with page.expect_download() as download:
            page.get_by_role("link", name="Download the adapter").click()
        assert Path(download.value.path()).read_bytes() == b"PK adapter"


def test_a_menu_is_chosen_from_by_keyboard_alone(browser: Browser, served: Served) -> None:
    file = served.upload(served.key("kay"))
    with opened(browser, served, served.users["kay"]) as page:
        page.goto(f"{served.url}/page/new?file={file}")
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="To the content")).to_be_focused()
        page.keyboard.press("Enter")
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.textContent") == "Show prices":
                break
        page.keyboard.press("Enter")
        page.wait_for_url("**/quotes/*")
        for _ in range(40):
            page.keyboard.press("Tab")
            if (
                page.evaluate("document.activeElement.getAttribute('aria-label') ?? ''")[:8]
                == "Accept l"
            ):
                break
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"
        row = page.get_by_role("row").filter(has=page.locator(":focus"))
        price = row.get_by_role("cell").nth(1).inner_text()
        page.keyboard.press("Enter")
        expect(page.get_by_role("status")).to_have_text("planned")
        tile = page.locator(".tile").filter(has_text="pays")
        assert tile.locator("dd").inner_text().split()[0] == price


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_pages_can_be_read_by_all_and_fit_a_phone(
    browser: Browser, served: Served, scheme: Scheme
) -> None:
    name = f"reader-{scheme}"
    file = served.upload(served.key(name))
    client = served.client(served.users[name])
    job = served.bid(client, file, bid="1000000").id
    served.train(job, 40)
    poor = served.bid(client, file, bid="0.0001").id
    with served.http(served.users[name]) as http:
        wanted = {"model": "tiny", "training_file": file, "market": {}}
        quote = http.post("/v1/quotes", json=wanted).json()["id"]
    own = ["jobs", f"jobs/{job}", f"jobs/{poor}", f"jobs/{poor}/why", f"quotes/{quote}"]
    coloured = {f"jobs/{job}", f"jobs/{poor}", f"quotes/{quote}", "zones/default"}
    own += [f"new?file={file}", "files", "money"]
    for key, places in ((served.users[name], own), (served.operator, ["market", "zones/default"])):
        with opened(browser, served, key, scheme) as page:
            # In the dark only the colours are others, and these have all that there are.
            is_sample = scheme == "dark" and not THOROUGH
            for place in (one for one in places if not is_sample or one in coloured):
                page.goto(f"{served.url}/page/{place}")
                for width in WIDTHS:
                    page.set_viewport_size({"width": width, "height": 850})
                    assert page.evaluate(TOO_WIDE) == 0, (place, width)
                rules = ("color-contrast",) if scheme == "dark" else ()
                assert barriers(page, *rules) == [], place


def test_all_links_of_an_operator_are_on_a_phone_s_screen(browser: Browser, served: Served) -> None:
    with opened(browser, served, served.operator) as page:
        page.set_viewport_size({"width": 390, "height": 850})
        links = page.get_by_role("navigation").get_by_role("link").all()
        boxes = {link.inner_text(): link.bounding_box() for link in links}
        assert [*boxes] == ["Market", "Accounts", "Jobs", "New job", "Files", "Money"]
        for name, box in boxes.items():
            assert box is not None
            assert box["x"] >= 0, name
            assert box["x"] + box["width"] <= 390, name


def test_fifteen_jobs_are_on_two_of_a_phone_s_screens(browser: Browser, served: Served) -> None:
    file = served.upload(served.key("phone"))
    client = served.client(served.users["phone"])
    # The second half is rejected, with the reason under the state.
    for bid in ["1000000"] * 8 + ["0.0001"] * 7:
        served.bid(client, file, bid=bid)
    with opened(browser, served, served.users["phone"]) as page:
        page.set_viewport_size({"width": 390, "height": 850})
        page.goto(f"{served.url}/page/jobs")
        assert page.locator("tbody tr").count() == 15
        height = page.locator("table").evaluate("one => one.getBoundingClientRect().height")
        assert height <= 2 * 850


def test_axe_would_find_a_barrier(browser: Browser, served: Served) -> None:
    with opened(browser, served, served.operator) as page:
        page.evaluate("document.querySelector('main').insertAdjacentHTML('beforeend', '<input>')")
        assert any(one.startswith("label") for one in barriers(page))
