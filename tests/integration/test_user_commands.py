"""What users type about their own jobs, against a market that is served in the test's process."""

import io
import json
import re
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from rich.console import Console

from auctune.cli._support import tables
from auctune.domain.money import STEP
from auctune.service.config.vendors import BuiltinVendorConfig
from auctune.service.files.repository import Purpose
from support.serving import ROWS, Served, make_file, make_zone, serving
from support.typing_as import Run, typing_as


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("market")) as opened:
        opened.key("ada")
        yield opened


@pytest.fixture
def auctune(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    return typing_as(served.users["ada"], served, monkeypatch, capsys)


def amounts(text: str) -> dict[str, Decimal]:
    """The parts of a price, by name, as they are shown."""
    found = re.findall(r"^ *([a-z, ]+?) +(\d+\.\d{4,6}) *$", text, re.MULTILINE)
    return {name: Decimal(amount) for name, amount in found}


def test_an_admitted_bid_is_explained_by_parts_that_add_up_to_what_it_pays(
    served: Served, auctune: Run
) -> None:
    job = served.bid(served.client(), served.upload())
    code, out, _ = auctune("explain", job.id)
    assert code == 0
    paid = Decimal(job.market["payment"])
    assert f"{job.id} in default" in out
    assert f"admitted, pays {paid} (bid 100.0000); {paid + STEP} would have been enough" in out
    parts = amounts(out)
    assert parts["price, rounded"] == paid
    sum_of_parts = parts["operating cost"] + parts["compute"] + parts["memory"]
    # Each of the three is shown to a millionth.
    assert abs(sum_of_parts - paid) <= STEP / 2 + Decimal("0.000002")
    (own,) = [line.split() for line in out.splitlines() if line.strip().startswith("chosen")]
    assert str(paid) in own


def test_a_rejected_bid_is_explained_by_what_would_have_been_enough(
    served: Served, auctune: Run
) -> None:
    client, file = served.client(), served.upload()
    job = served.bid(client, file, bid="0.0001")
    out = auctune("explain", job.id)[1]
    least = job.market["min_bid"]
    assert f"rejected (bid 0.0001), {job.error.message}; {least} would have been enough" in out
    assert served.bid(client, file, bid=least).market["decision"] == "admitted"


def test_a_bid_that_came_too_late_is_explained_by_when_it_could_have_been_done(
    served: Served, auctune: Run
) -> None:
    file = served.upload()
    # OpenAI's document ends at 50 epochs.
    with served.http(is_checked=False) as http:
        terms = {"bid": "99", "deadline": "+3m"}
        work = {"model": "tiny", "training_file": file, "hyperparameters": {"n_epochs": 300}}
        job = http.post("/v1/fine_tuning/jobs", json={**work, "market": terms}).json()
    code, out, _ = auctune("explain", job["id"])
    assert (code, "part of the price" in out) == (0, False)
    (done,) = re.findall(r"it could have been done by ([\d-]+ [\d:]+)$", out, re.MULTILINE)
    earliest = next(line for line in out.splitlines() if line.strip().startswith("earliest"))
    assert done in earliest
    assert re.search(r"chosen +none *$", out, re.MULTILINE)
    told = json.loads(auctune("explain", job["id"], "--json")[1])
    assert (told["chosen"], told["reason"]) == (None, job["market"]["reason"])


def test_nobody_else_s_job_is_explained(served: Served, auctune: Run) -> None:
    job = served.bid(served.client(), served.upload()).id
    code, out, lines = auctune("explain", job, "--api-key", served.key("eve"))
    assert (code, out, len(lines)) == (1, "", 1)
    assert lines[0].startswith("auctune: there is no job ")


def test_a_bid_over_its_budget_is_told_the_price_and_what_is_left(
    served: Served, auctune: Run
) -> None:
    most = {"amount": "0.0001", "seconds": 86_400}
    own = ("--api-key", served.key("poor"))
    file = served.upload(served.users["poor"])
    with served.http(served.operator) as http:
        http.post("/v1/users", json={"id": "poor", "budget": most})
    work = (file, "--bid", "99", "--deadline", "+20m", *own)
    code, out, _ = auctune("submit", *work, "--json")
    job = json.loads(out)
    price = job["market"]["price"]
    words = f"the price, {price}, exceeds the remaining budget, 0.0001"
    assert (code, Decimal(price) > Decimal("0.0001")) == (3, True)
    assert words in auctune("submit", *work)[1]
    assert words in auctune("watch", job["id"], *own)[1]
    assert words in auctune("explain", job["id"], *own)[1]


def test_operators_see_what_is_spent_and_left_of_budgets(served: Served, auctune: Run) -> None:
    most = {"amount": "500.0000", "seconds": 86_400}
    with served.http(served.operator) as http:
        http.post("/v1/teams", json={"id": "crew", "budget": most})
    client = served.client(served.key("rich", team="crew"))
    paid = Decimal(served.bid(client, served.upload(served.users["rich"])).market["payment"])
    operator = ("--api-key", served.operator)
    rows = [line.split() for line in auctune("teams", "list", *operator)[1].splitlines()]
    assert ["crew", "500.0000", "in", "24.0", "h", str(paid), str(500 - paid), "-"] in rows
    rows = [line.split() for line in auctune("users", "list", *operator)[1].splitlines()]
    # Of a user its own budget is shown, which this one has not.
    assert ["rich", "crew", "-", "-", "-", "-"] in rows


def test_whatever_is_done_to_a_job_that_is_over_gets_one_answer(
    served: Served, auctune: Run
) -> None:
    client, file = served.client(), served.upload()
    cancelled, rejected = served.bid(client, file).id, served.bid(client, file, bid="0.0001").id
    assert auctune("cancel", cancelled)[0] == 0
    finished = served.bid(client, file).id
    served.finish(finished, "ada")
    for job in (cancelled, rejected, finished):
        for action in ("cancel", "pause", "resume"):
            assert auctune(action, job) == (1, "", ["auctune: id: the job is over"])
            with served.http() as http:
                answer = http.post(f"/v1/fine_tuning/jobs/{job}/{action}")
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, "job_over")


def test_broken_data_are_refused_with_a_word_on_who_could_mend_them(
    served: Served, auctune: Run, tmp_path: Path
) -> None:
    (tmp_path / "broken.jsonl").write_text(ROWS + '{"prompt": "half a row\n')
    work = (tmp_path / "broken.jsonl", "--deadline", "+20m")
    hint = "or market.repair (--repair), to have a vendor repair it"
    code, _, lines = auctune("quote", *work)
    assert (code, len(lines)) == (2, 1)
    assert "or --repair, to have a vendor repair it" in lines[0]
    code, out, _ = auctune("submit", *work, "--bid", "9", "--watch")
    assert (code, hint in out) == (3, True)
    # Measured alone: it is not repaired.
    code, _, lines = auctune("quote", served.upload(), "--validation", tmp_path / "broken.jsonl")
    assert (code, "--repair" in lines[0]) == (2, False)
    assert auctune("quote", *work, "--repair")[0] == 0


def test_where_there_is_no_vendor_none_is_offered(tmp_path: Path, auctune: Run) -> None:
    (tmp_path / "broken.jsonl").write_text(ROWS + '{"prompt": "half a row\n')
    zone = make_zone().model_copy(update={"builtin_vendor": BuiltinVendorConfig(enabled=False)})
    with serving(tmp_path / "market", make_file([zone])) as alone:
        at = ("--url", alone.url, "--api-key", alone.key("ada"))
        code, _, lines = auctune("quote", tmp_path / "broken.jsonl", *at)
    assert (code, "repair" in lines[0]) == (2, False)


def test_jobs_are_listed_with_why_they_came_to_nothing(served: Served, auctune: Run) -> None:
    own = ("--api-key", served.key("lister"))
    client, file = served.client(served.users["lister"]), served.upload(served.users["lister"])
    low, good = served.bid(client, file, bid="0.0001").id, served.bid(client, file).id
    found = {line.split()[0]: line.split() for line in auctune("jobs", *own)[1].splitlines()[2:-1]}
    assert (found[low][-3:], found[good][-1]) == (["bid", "too", "low"], "-")
    # No job is left out silently, nor what is owed for it.
    code, out, lines = auctune("jobs", "--limit", "1", *own)
    assert (code, good in out, low in out, len(lines)) == (0, True, False, 1)
    assert "for more: --all" in lines[0]
    code, out, lines = auctune("jobs", "--limit", "1", "--all", *own)
    assert (code, good in out, low in out, lines) == (0, True, True, [])
    auctune("cancel", good, *own)
    assert served.bid(client, file).market["decision"] == "admitted"
    assert "for more: --all" in auctune("ledger", "--limit", "1", *own)[2][0]


def test_files_are_listed_and_those_no_open_job_needs_deleted(
    served: Served, auctune: Run, tmp_path: Path
) -> None:
    own = ("--api-key", served.key("filer"))
    assert auctune("files", "list", *own)[:2] == (0, "no files yet\n")
    client, key = served.client(served.users["filer"]), served.users["filer"]
    needed, other = served.upload(key, name="needed.jsonl"), served.upload(key, name="other.jsonl")
    job = served.bid(client, needed).id
    out = auctune("files", "list", *own)[1]
    assert out.index("other.jsonl") < out.index("needed.jsonl")
    assert [one["id"] for one in json.loads(auctune("files", "list", "--json", *own)[1])] == [
        other,
        needed,
    ]
    assert needed not in auctune("files", "list", "--limit", "1", *own)[1]
    code, out, lines = auctune("files", "delete", needed, *own)
    assert (code, out, lines) == (1, "", ["auctune: id: an open job needs this file"])
    auctune("cancel", job, *own)
    for file in (needed, other):
        assert auctune("files", "delete", file, *own)[:2] == (0, f"deleted {file}\n")
    assert auctune("files", "list", *own)[1] == "no files yet\n"


def test_an_upload_expires_after_the_span_that_is_asked_for(
    served: Served, auctune: Run, tmp_path: Path
) -> None:
    own = ("--api-key", served.key("keeper"))
    path = tmp_path / "rows.jsonl"
    path.write_text(ROWS)
    code, kept, _ = auctune("files", "upload", path, *own)
    assert code == 0
    ids = [auctune("files", "upload", path, "--expires", span, *own)[1] for span in ("12h", "7d")]
    found = json.loads(auctune("files", "list", "--json", *own)[1])
    spans = {one["id"]: one.get("expires_at", 0) - one["created_at"] for one in found}
    assert [spans[one.strip()] for one in ids] == [12 * 3600, 7 * 86_400]
    assert spans[kept.strip()] < 0
    assert "expires" in auctune("files", "list", *own)[1]
    assert f"stored: 3 files, {3 * len(ROWS):,} bytes\n" in auctune("ledger", *own)[1]
    for span, expected in (("7", "12h or 7d"), ("0d", "12h or 7d"), ("31d", "30 days")):
        code, _, lines = auctune("files", "upload", path, "--expires", span, *own)
        assert code == 2
        assert expected in lines[0]
    code, _, lines = auctune("files", "upload", tmp_path / "none.jsonl", *own)
    assert (code, "cannot be read" in lines[0]) == (2, True)


@pytest.mark.slow
def test_the_same_data_are_uploaded_once_by_each_of_their_owners(
    served: Served, auctune: Run, tmp_path: Path
) -> None:
    owners = [("--api-key", served.key(name)) for name in ("first", "second")]

    def ids(own: tuple[str, str]) -> list[str]:
        found = json.loads(auctune("files", "list", "--json", *own)[1] or "[]")
        return [one["id"] for one in found]

    path = tmp_path / "same.jsonl"
    path.write_text(ROWS)
    for own in owners:
        for command in (("quote",), ("quote",), ("submit", "--bid", "50")):
            assert auctune(*command, path, "--deadline", "+20m", *own)[0] == 0
    (one,), (other,) = (ids(own) for own in owners)
    assert one != other
    # Another content or another name is another file.
    path.write_text(ROWS + ROWS)
    auctune("quote", path, "--deadline", "+20m", *owners[0])
    path.rename(tmp_path / "renamed.jsonl")
    auctune("quote", tmp_path / "renamed.jsonl", "--deadline", "+20m", *owners[0])
    assert len(ids(owners[0])) == 3
    # A deleted one is not found.
    auctune("files", "delete", ids(owners[0])[0], *owners[0])
    auctune("quote", tmp_path / "renamed.jsonl", "--deadline", "+20m", *owners[0])
    assert len(ids(owners[0])) == 3


def test_an_upload_that_was_not_looked_at_before_an_end_is_looked_at_after_the_next_start(
    tmp_path: Path,
) -> None:
    class Form:
        filename, purpose = "rows.jsonl", Purpose.TRAINING
        expires_seconds: int | None = None

    async def chunks() -> AsyncIterator[bytes]:
        yield ROWS.encode()

    with serving(tmp_path / "market") as before:
        key = before.key("ada")
        # As if the service had ended right after this was on record.
        file = before.run(lambda: before.service.files.add("ada", Form(), chunks())).id
        assert before.client(key).files.retrieve(file).status == "uploaded"
    with serving(tmp_path / "market") as after:
        found = after.client(key).files.wait_for_processing(
            file, poll_interval=0.05, max_wait_seconds=30
        )
        assert found.status == "processed"


def test_webhooks_are_added_listed_and_deleted(served: Served, auctune: Run) -> None:
    own = ("--api-key", served.key("hooked"))
    assert auctune("webhooks", "list", *own)[:2] == (0, "no webhooks yet\n")
    code, out, _ = auctune("webhooks", "add", "https://example.org/hook", *own)
    (hook,) = json.loads(auctune("webhooks", "list", "--json", *own)[1])
    assert code == 0
    assert (out.split()[0], out.splitlines()[-1]) == (hook["id"], hook["secret"])
    shown = auctune("webhooks", "list", *own)[1]
    assert hook["id"] in shown
    assert "https://example.org/hook" in shown
    assert hook["secret"] not in shown
    code, out, lines = auctune("webhooks", "add", "no-address", *own)
    assert (code, out, len(lines)) == (2, "", 1)
    assert lines[0].startswith("auctune: url: ")
    code, _, lines = auctune("webhooks", "delete", hook["id"])
    assert (code, "there is no webhook" in lines[0]) == (1, True)
    assert auctune("webhooks", "delete", hook["id"], *own)[0] == 0
    assert auctune("webhooks", "list", *own)[1] == "no webhooks yet\n"


def test_why_is_the_first_column_that_a_narrow_terminal_does_without(
    served: Served, auctune: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = served.key("narrow")
    low = served.bid(served.client(key), served.upload(key), bid="0.0001").id

    def shown(columns: int) -> list[str]:
        file = io.StringIO()
        console = Console(file=file, width=columns, force_terminal=True, color_system=None)
        monkeypatch.setattr(tables, "make_console", lambda _: console)
        assert auctune("jobs", "--api-key", key)[0] == 0
        return file.getvalue().splitlines()

    full = shown(200)
    narrow = shown(max(map(len, full)) - 1)
    heads, fewer = full[1].split(), narrow[1].split()
    assert heads[-1] == "why"
    assert fewer == heads[:-1]
    assert ("too low" in full[3], "too low" in narrow[3]) == (True, False)
    assert low in narrow[3]
