"""A trained model on its job's page: answers and an evaluation beside the base."""

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from auctune.domain.evaluation import Evaluation
from auctune.engine.generation import GeneratorSettings
from auctune.engine.inference import evaluate
from auctune.service.config.inference import InferenceConfig
from auctune.service.page import evaluation_views
from support.browser import barriers, chromium
from support.page_visitor import PageVisitor, faults
from support.serving import Served, make_file, make_zone, serving
from support.tuned_models import (
    TrainedAdapter,
    chat_rows,
    finished_job,
    question,
    train_adapter,
)
from support.waits import WAIT_MS, poll

pytest_plugins = ["support.tiny_bases"]

# Others may be at work on the machine: not last in line.
LIMITS = InferenceConfig(max_batch=8, threads=1)
ROWS = chat_rows(60)
HTMX = {"HX-Request": "true"}
TOO_WIDE = "(root => root.scrollWidth - root.clientWidth)(document.documentElement)"


@pytest.fixture(scope="module")
def adapter(tiny_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainedAdapter:
    return train_adapter(tmp_path_factory.mktemp("trained"), tiny_cache)


class Shop:
    """A market whose models answer, and the owner of one."""

    def __init__(self, served: Served, adapter: TrainedAdapter) -> None:
        self.served = served
        self.adapter = adapter
        key = served.key("ada")
        self.validation = served.upload(key, ROWS, "validation.jsonl")
        self.job = finished_job(served, "ada", adapter, ROWS, self.validation)
        self.ada = PageVisitor(served, key)
        self.place = f"/page/jobs/{self.job}"

    def answer_of_the_api(self) -> str:
        """What the API answers to the question on Oslo."""
        client = self.served.client()
        model = client.fine_tuning.jobs.retrieve(self.job).fine_tuned_model
        assert model is not None
        messages: Any = [{"role": "user", "content": question("Oslo")}]
        found = client.chat.completions.create(model=model, messages=messages, temperature=0)
        return str(found.choices[0].message.content)


def served_with(folder: Path, cache: Path, inference: InferenceConfig) -> "Iterator[Served]":
    file = make_file([make_zone()]).model_copy(update={"inference": inference})
    # Nothing is sold that answers could delay.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("auctune.service.config.inference.NICENESS", 0)
        with serving(folder, file, bases=cache) as opened:
            yield opened


@pytest.fixture(scope="module")
def shop(
    tmp_path_factory: pytest.TempPathFactory, tiny_cache: Path, adapter: TrainedAdapter
) -> Iterator[Shop]:
    for served in served_with(tmp_path_factory.mktemp("market"), tiny_cache, LIMITS):
        yield Shop(served, adapter)


def texts(page: str) -> dict[str, list[str]]:
    """What stands under each heading of the answers."""
    found: dict[str, list[str]] = {}
    for name, text in re.findall(
        r"<dt>(\w+)</dt>\s*<dd class=\"text\">(.*?)</dd>", page, re.DOTALL
    ):
        found.setdefault(name, []).append(unescape(text))
    return found


def scores(page: str) -> list[str]:
    """Loss and token accuracy of the model, and of the base."""
    return re.findall(r'<td class="number">([\d.]+%?)</td>', page[page.index('class="scores"') :])


def command(shop: Shop, cache: Path, folder: Path) -> Evaluation:
    """What `auctune evaluate` finds on the same rows."""
    data = folder / "rows.jsonl"
    data.write_text(ROWS)
    settings = GeneratorSettings(base="tiny", cache=cache, threads=1)
    return evaluate(settings, shop.adapter.folder, data, max_rows=50)


@pytest.mark.slow
def test_an_evaluation_has_the_figures_of_the_command(
    shop: Shop, tiny_cache: Path, tmp_path: Path
) -> None:
    offered = shop.ada.get(shop.place)
    assert faults(offered) == []
    assert f'<option value="{shop.validation}" selected>validation.jsonl' in offered.text
    answer = shop.ada.post(f"{shop.place}/evaluations", file=shop.validation)
    assert answer.status_code == 200
    assert faults(answer) == []
    found = command(shop, tiny_cache, tmp_path)
    assert found.adapter.loss < 0.5 < found.base.loss
    shown = [
        text
        for pair in (
            [f"{one.loss:.3f}" for one in (found.adapter, found.base)],
            [f"{one.token_accuracy:.1%}" for one in (found.adapter, found.base)],
        )
        for text in pair
    ]
    assert scores(answer.text) == shown
    assert f"50 rows, {found.targets} target tokens" in answer.text
    answers = texts(answer.text)
    assert answers["Prompt"] == [one.prompt for one in found.answers]
    assert answers["Expected"] == [one.expected for one in found.answers]
    assert answers["Model"] == [one.adapter.strip() for one in found.answers]
    assert answers["Base"] == [one.base.strip() or "(nothing)" for one in found.answers]
    assert len(found.answers) == 3


def test_both_answer_a_question_in_the_format_of_the_training_data(shop: Shop) -> None:
    answer = shop.ada.post(f"{shop.place}/answers", prompt=question("Oslo"))
    assert answer.status_code == 200
    assert faults(answer) == []
    found = texts(answer.text)
    assert found["Model"] == [shop.answer_of_the_api()]
    assert found["Base"] != found["Model"]
    assert f">{question('Oslo')}</textarea>" in answer.text


def test_what_a_model_writes_is_shown_as_text(shop: Shop) -> None:
    evil = "<img src=x onerror=alert(1)><!--part-->"
    answer = shop.ada.post(f"{shop.place}/answers", prompt=evil)
    assert faults(answer) == []
    rows = {"messages": [{"role": "user", "content": evil}, {"role": "assistant", "content": evil}]}
    file = shop.ada.upload("evil.jsonl", json.dumps(rows).encode())
    parts = stream(shop, "evaluations", file=file)
    assert texts(parts[-1])["Expected"] == [evil]
    assert "<img" not in parts[-1]


def stream(shop: Shop, what: str, **fields: str) -> list[str]:
    fields = {"csrf": shop.ada.token(), **fields}
    answer = shop.ada.http.post(f"{shop.place}/{what}", data=fields, headers=HTMX)
    assert answer.status_code == 200
    *parts, end = answer.text.split("<!--part-->")
    assert end == ""
    return parts


@pytest.mark.slow
def test_with_scripts_the_reply_comes_in_parts_with_its_progress(shop: Shop) -> None:
    first, *_, last = stream(shop, "evaluations", file=shop.validation)
    assert "Waiting for the model" in first
    whole = shop.ada.post(f"{shop.place}/evaluations", file=shop.validation).text
    assert scores(last) == scores(whole)
    assert texts(last) == texts(whole)
    assert "<progress" not in last
    found = texts(stream(shop, "answers", prompt=question("Oslo"))[-1])
    assert found["Model"] == [shop.answer_of_the_api()]


def test_an_evaluation_shows_how_many_rows_were_read(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation_views, "_PART_SECONDS", 0.0)
    rows = "".join(f'{{"text": "Row {number} of a text."}}\n' for number in range(5))
    parts = stream(shop, "evaluations", file=shop.served.upload(shop.served.users["ada"], rows))
    read = [int(one) for one in re.findall(r'<progress max="10" value="(\d+)"', "".join(parts))]
    assert read == sorted(read)
    assert set(read) >= set(range(1, 10))
    assert "2 of 5 rows read by both" in "".join(parts)
    assert "Rows of text have no prompts" in parts[-1]


def test_what_is_wrong_is_one_message(shop: Shop) -> None:
    served, users = shop.served, shop.served.users
    pairs = {
        "input": {"messages": [{"role": "user", "content": "a"}]},
        "preferred_output": [{"role": "assistant", "content": "b"}],
        "non_preferred_output": [{"role": "assistant", "content": "c"}],
    }
    files = {
        "are preferences": served.upload(users["ada"], json.dumps(pairs)),
        "line 2": served.upload(users["ada"], '{"text": "a"}\n{"oops": 1}\n'),
    }
    for words, file in files.items():
        whole = shop.ada.post(f"{shop.place}/evaluations", file=file)
        assert whole.status_code == 400
        for text in (whole.text, stream(shop, "evaluations", file=file)[-1]):
            (alert,) = re.findall(r'role="alert">(.*?)</p>', text)
            assert alert.startswith("Rows: ")
            assert words in alert
            assert str(served.folder) not in text
    for file in ("", "file-none", served.upload(served.key("eve"))):
        gone = shop.ada.post(f"{shop.place}/evaluations", file=file)
        assert (gone.status_code, "There is no file" in gone.text) == (404, True)
    assert shop.ada.post(f"{shop.place}/answers", prompt=" ").status_code == 400
    long = shop.ada.post(f"{shop.place}/answers", prompt="sunny " * 2000)
    assert long.status_code == 400
    assert "that the model can read" in long.text


def test_only_the_owner_of_a_model_may_use_it(shop: Shop) -> None:
    thief = PageVisitor(shop.served, shop.served.key("thief"))
    own = shop.served.upload(shop.served.users["thief"])
    for what, fields in (("answers", {"prompt": "Hello"}), ("evaluations", {"file": own})):
        for visitor in (thief, PageVisitor(shop.served, shop.served.operator)):
            assert visitor.post(f"{shop.place}/{what}", **fields).status_code == 404
        open_job = shop.served.bid(shop.served.client(), shop.validation).id
        assert shop.ada.post(f"/page/jobs/{open_job}/{what}", **fields).status_code == 404
    assert 'id="trial"' not in shop.ada.get(f"/page/jobs/{open_job}").text


def wait_until_free(served: Served) -> None:
    poll(lambda: not served.service.evaluations._users and served.num_open_answers() == 0)


def test_a_user_has_one_evaluation_at_a_time_which_ends_when_the_client_leaves(shop: Shop) -> None:
    shop.answer_of_the_api()
    fields = {"csrf": shop.ada.token(), "file": shop.validation}
    place = f"{shop.place}/evaluations"
    with (
        shop.served.held_answers(),
        shop.ada.http.stream("POST", place, data=fields, headers=HTMX) as answer,
    ):
        parts = answer.iter_text()
        assert "Waiting for the model" in next(parts)
        second = shop.ada.http.post(place, data=fields)
        assert second.status_code == 429
        assert "Another evaluation of yours is running" in second.text
    wait_until_free(shop.served)
    assert shop.ada.http.post(place, data=fields).status_code == 200


@pytest.mark.slow
def test_tokens_are_charged_at_the_price_that_the_page_names(
    tmp_path: Path, tiny_cache: Path, adapter: TrainedAdapter
) -> None:
    priced = LIMITS.model_copy(update={"price": Decimal("10.0000")})
    for served in served_with(tmp_path / "market", tiny_cache, priced):
        shop = Shop(served, adapter)
        page = shop.ada.get(shop.place).text
        assert "generates is charged: 10.0000 for 1,000" in page
        assert "Both read each of the rows." in page
        with served.http() as http:
            before = Decimal(http.get("/v1/ledger").json()["balance"])
            last = stream(shop, "evaluations", file=shop.validation)[-1]
            tokens = int(
                re.findall(r"([\d,]+) tokens read and generated", last)[0].replace(",", "")
            )
            assert tokens > 50
            after = Decimal(http.get("/v1/ledger").json()["balance"])
        assert after - before == Decimal(tokens) / 100


@pytest.mark.slow
def test_a_model_that_cannot_be_used_says_why(
    tmp_path: Path, tiny_cache: Path, adapter: TrainedAdapter
) -> None:
    disabled = LIMITS.model_copy(update={"enabled": False})
    for served in served_with(tmp_path / "market", tiny_cache, disabled):
        shop = Shop(served, adapter)
        assert "[inference] is not enabled in its settings" in shop.ada.get(shop.place).text
        answer = shop.ada.post(f"{shop.place}/answers", prompt="Hello")
        assert (answer.status_code, "is not enabled" in answer.text) == (403, True)
    for served in served_with(tmp_path / "other", tiny_cache, LIMITS):
        shop = Shop(served, adapter)
        client = served.client()
        name = client.fine_tuning.jobs.retrieve(shop.job).fine_tuned_model
        assert name is not None
        client.models.delete(name)
        page = shop.ada.get(shop.place)
        assert (page.status_code, "Its adapter has been deleted" in page.text) == (200, True)
        for what in ("answers", "evaluations"):
            gone = shop.ada.post(f"{shop.place}/{what}", prompt="Hello", file=shop.validation)
            assert (gone.status_code, "does not exist" in gone.text) == (404, True)


@pytest.mark.slow
def test_a_job_on_pairs_says_what_its_rows_lack(shop: Shop) -> None:
    pairs = "".join(
        json.dumps(
            {
                "input": {"messages": [{"role": "user", "content": f"Say {number}"}]},
                "preferred_output": [{"role": "assistant", "content": "b"}],
                "non_preferred_output": [{"role": "assistant", "content": "c"}],
            }
        )
        + "\n"
        for number in range(50)
    )
    client, key = shop.served.client(), shop.served.users["ada"]
    job = client.fine_tuning.jobs.create(
        model="tiny",
        training_file=shop.served.upload(key, pairs, "pairs.jsonl"),
        method={"type": "dpo"},
        extra_body={"market": {"bid": "100", "deadline": "+20m"}},
    ).id
    shop.served.train(job, 40)
    shop.served.finish(job, "ada", content=shop.adapter.archive.read_bytes())
    place = f"/page/jobs/{job}"
    page = shop.ada.get(place).text
    assert "preferences, which have neither" in page
    assert "selected" not in page
    answer = shop.ada.post(f"{place}/answers", prompt=question("Oslo"))
    assert texts(answer.text)["Model"] == [shop.answer_of_the_api()]
    assert scores(shop.ada.post(f"{place}/evaluations", file=shop.validation).text)


@pytest.mark.slow
def test_in_a_browser_parts_take_the_place_of_one_another_until_the_end_or_a_stop(
    shop: Shop,
) -> None:
    other = shop.served.upload(shop.served.users["ada"], ROWS, "other.jsonl")
    said = shop.answer_of_the_api()
    with chromium() as browser, browser.new_context() as context:
        context.set_default_timeout(WAIT_MS)
        expect.set_options(timeout=WAIT_MS)
        page = context.new_page()
        page.goto(shop.served.url)
        page.get_by_label("API key").fill(shop.served.users["ada"])
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
        page.goto(f"{shop.served.url}{shop.place}")

        page.get_by_label("Question").fill(question("Oslo"))
        ask = page.get_by_role("button", name="Ask both")
        ask.click()
        expect(page.locator("#answers").get_by_text(said, exact=True)).to_be_visible()
        expect(ask).to_be_enabled()

        # Parts are shown as they come; while the process stands still the first one stays.
        shown = page.locator("#evaluation")
        start = page.get_by_role("button", name="Evaluate")
        with shop.served.held_answers():
            start.click()
            expect(shown.get_by_text("Waiting for the model")).to_be_visible()
            expect(start).to_be_disabled()
            page.locator("button.stop:visible").click()
            expect(shown.get_by_role("alert")).to_have_text("Stopped.")
        wait_until_free(shop.served)

        start.click()
        expect(page.get_by_role("row", name=re.compile("^token accuracy"))).to_be_visible()
        expect(shown.locator("dt", has_text="Expected")).to_have_count(3)
        expect(page.get_by_role("alert")).to_have_count(0)
        # The answers to the question stay.
        expect(page.locator("#answers").get_by_text(said, exact=True)).to_be_visible()
        for width in (390, 1280):
            page.set_viewport_size({"width": width, "height": 850})
            assert page.evaluate(TOO_WIDE) == 0
        assert barriers(page) == []

        # What is refused before there is a reply is shown in its place.
        with shop.served.http() as http:
            http.delete(f"/v1/files/{other}")
        page.get_by_label("Rows", exact=True).select_option(other)
        start.click()
        expect(shown.get_by_role("alert")).to_contain_text("There is no file")
