"""Estimates, metered jobs, a market and a pool on the page: chosen by a click, read by all."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape

import pytest
from playwright.sync_api import Browser, Page, expect

from support.browser import barriers, chromium
from support.metered_shop import POOL, RENTED, Pool, ask, metered_market, rented_slot
from support.page_visitor import PageVisitor, faults
from support.serving import Served
from support.thorough import THOROUGH
from support.waits import WAIT_MS

pytestmark = pytest.mark.slow

# A phone's and a actor's.
WIDTHS = (390, 1280)
TOO_WIDE = "(root => root.scrollWidth - root.clientWidth)(document.documentElement)"


@dataclass
class Shop:
    """A market with a job on rented instances and two on a pool, all under way."""

    served: Served
    file: str
    rented: str
    targets: list[str]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with metered_market(tmp_path_factory.mktemp("market")) as served:
        file = served.upload()
        rented = {"zone": RENTED, "deadline": "+20m", "max_cost": "20"}
        target = {"zone": POOL, "deadline": "+20m", "max_cost": "2", "target_loss": 0.5}
        jobs = [ask(served, file, terms)["id"] for terms in (rented, target, target)]
        pool = Pool(served)
        for job in jobs[1:]:
            pool.join(job)
        for number in range(3):
            served.clock.pass_slots(1)
            rented_slot(served, jobs[0], number, on_demand=1, spot=number)
            pool.train({jobs[1]: 0.75, jobs[2]: 0.25}, 3.0 - number)
        yield Shop(served, file, jobs[0], jobs[1:])


@pytest.fixture(scope="module")
def browser(shop: Shop) -> Iterator[Browser]:
    expect.set_options(timeout=WAIT_MS)
    with chromium() as found:
        yield found


def signed_in(browser: Browser, shop: Shop, key: str, scheme: str = "light") -> Page:
    page = browser.new_page(color_scheme="dark" if scheme == "dark" else "light")
    page.set_default_timeout(WAIT_MS)
    page.goto(shop.served.url)
    page.get_by_label("API key").fill(key)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).not_to_have_text("Sign in")
    return page


def tile(page: Page, name: str) -> str:
    found = page.locator(".tile").filter(has=page.locator("dt", has_text=name))
    return found.first.locator("dd").inner_text()


def test_an_estimate_or_another_zones_price_is_chosen_by_a_click(
    browser: Browser, shop: Shop
) -> None:
    page = signed_in(browser, shop, shop.served.users["ada"])
    page.goto(f"{shop.served.url}/page/new?file={shop.file}")
    page.get_by_label("Deadline").fill("+8m")
    page.get_by_role("button", name="Show prices").click()
    expect(page.get_by_role("heading", name="Prices by finish time")).to_be_visible()
    assert page.get_by_role("button", name="Accept line 0").is_visible()
    chart = page.get_by_role("img", name=re.compile("^Cost by finish time of each zone"))
    assert chart.is_visible()

    page.get_by_role("button", name="Show the offer of rented").click()
    expect(page.get_by_role("heading", name="Estimate")).to_be_visible()
    assert "zone rented (spot)" in page.locator(".facts").inner_text()
    expected = tile(page, "cost in 9 of 10 cases").split()[1]
    assert float(page.get_by_label("Cap").input_value()) == float(expected)
    page.get_by_role("button", name="Show the offer of owned").click()
    expect(page.get_by_role("heading", name="Prices by finish time")).to_be_visible()
    page.get_by_role("button", name="Show the offer of rented").click()
    page.get_by_label("Cap").fill("9.75")
    page.get_by_role("button", name="Accept the estimate").click()
    expect(page.get_by_role("status")).to_have_text("planned")
    assert "of a cap of 9.7500" in tile(page, "cost so far")
    assert "zone rented" in page.locator(".facts").inner_text()
    page.close()


def test_an_owner_sees_cost_against_cap_and_loss_against_target(shop: Shop) -> None:
    ada = PageVisitor(shop.served, shop.served.users["ada"])
    rented = ada.get(f"/page/jobs/{shop.rented}")
    with shop.served.http() as http:
        metered = http.get(f"/v1/fine_tuning/jobs/{shop.rented}").json()["market"]["metered"]
    assert f'value="{metered["cost"]}"' in rented.text
    assert "Cost so far 5.6250 of a cap of 20.0000, in 3 slots" in unescape(rented.text)
    assert metered["cost"] == "5.6250"
    assert "Explain the decision" not in rented.text
    target = ada.get(f"/page/jobs/{shop.targets[0]}")
    assert "to reach 0.5" in target.text
    assert "Loss curve: from 3 to 1" in target.text
    assert [faults(one) for one in (rented, target)] == [[], []]
    listed = ada.get("/page/jobs").text
    assert "5.6250" in listed


def test_an_operator_sees_market_holdings_shares_and_curves(shop: Shop) -> None:
    operator = PageVisitor(shop.served, shop.served.operator)
    market = operator.get(f"/page/zones/{RENTED}")
    assert "held are 1 on demand and 2 spot" in market.text
    rows = re.findall(
        r"<tr><th scope=\"row\">(\d+)</th>.*?>1</td><td class=\"number\">(\d)</td></tr>",
        market.text,
    )
    assert [held for _, held in rows] == ["2", "1", "0"]
    pool = operator.get(f"/page/zones/{POOL}").text
    assert "75%" in pool
    assert "Loss curves of 2 jobs" in pool
    assert faults(market) == []
    # Money that is metered is money.
    assert "5.6250" in market.text


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_metered_pages_can_be_read_by_all_and_fit_a_phone(
    browser: Browser, shop: Shop, scheme: str
) -> None:
    served = shop.served
    wanted = {"model": "tiny", "training_file": shop.file, "market": {"deadline": "+8m"}}
    with served.http() as http:
        quote = http.post("/v1/quotes", json=wanted).json()["id"]
    own = [f"quotes/{quote}", f"jobs/{shop.rented}", f"jobs/{shop.targets[0]}"]
    zones = [f"zones/{RENTED}", f"zones/{POOL}"]
    is_sample = scheme == "dark" and not THOROUGH
    for key, places in ((served.users["ada"], own), (served.operator, zones)):
        page = signed_in(browser, shop, key, scheme)
        for place in places[:1] if is_sample else places:
            page.goto(f"{served.url}/page/{place}")
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 850})
                assert page.evaluate(TOO_WIDE) == 0, (place, width)
            rules = ("color-contrast",) if scheme == "dark" else ()
            assert barriers(page, *rules) == [], place
        page.close()
