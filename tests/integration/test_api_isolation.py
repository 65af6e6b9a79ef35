"""No route gives one user another's records, bids, data, adapters or identifiers: a walk."""

import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import httpx2
import pytest

from auctune.service.page.app import page_routes
from support.page_visitor import PageVisitor
from support.serving import ROWS, Served, make_file, make_zone, serving

SECRET_ROWS = ROWS.replace("weather", "treasure")
SECRET_BID = "77.7177"


class Victim:
    """A user with one of everything, and all that is hers alone."""

    def __init__(self, served: Served) -> None:
        self.key = served.key("victoria")
        client = served.client(self.key)
        self.file = served.upload(self.key, SECRET_ROWS, "treasure.jsonl")
        self.job = client.fine_tuning.jobs.create(
            model="tiny",
            training_file=self.file,
            suffix="treasure",
            metadata={"where": "treasure island"},
            extra_body={"market": {"bid": SECRET_BID, "deadline": "+20m"}},
        ).id
        self.open = served.bid(client, self.file, bid=SECRET_BID).id
        served.train(self.job, 40)
        self.adapter = served.finish(self.job, "victoria")
        with served.http(self.key) as http:
            quoted = {"model": "tiny", "training_file": self.file, "market": {}}
            self.quote = http.post("/v1/quotes", json=quoted).json()["id"]
            hook = http.post("/v1/webhooks", json={"url": "https://treasure.example/hook"}).json()
        self.hook, self.hook_secret = hook["id"], hook["secret"]
        keys = served.service.accounts.all_keys()
        self.key_id = next(key.id for key in keys if key.user == "victoria")

    @property
    def hers(self) -> list[str]:
        named = [self.key, self.file, self.job, self.open, self.adapter, self.quote, self.hook]
        return [*named, self.hook_secret, self.key_id, "victoria", "treasure", SECRET_BID]

    @property
    def identifiers(self) -> dict[str, list[str]]:
        return {
            "job_id": [self.job, self.open],
            "file_id": [self.file, self.adapter],
            "quote_id": [self.quote],
            "name": ["page.css"],
            "webhook_id": [self.hook],
            "key_id": [self.key_id],
            "user_id": ["victoria"],
            "zone_id": ["default"],
            "node_id": ["default-0"],
            "model": [f"ft:tiny:treasure:{self.job.removeprefix('ftjob-')}"],
        }


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("market"), make_file([make_zone()])) as opened:
        yield opened


@pytest.fixture(scope="module")
def victim(served: Served) -> Victim:
    return Victim(served)


def routes(served: Served) -> list[tuple[str, str]]:
    """Methods and paths, of the document that is served."""
    document = served.app.openapi()
    return [
        (method.upper(), path) for path, methods in document["paths"].items() for method in methods
    ]


def paths(path: str, victim: Victim) -> list[str]:
    names = re.findall(r"\{(\w+)\}", path)
    choices = [victim.identifiers[name] for name in names]
    return [path.format(**dict(zip(names, chosen, strict=True))) for chosen in product(*choices)]


def bodies(victim: Victim) -> list[dict[str, Any]]:
    terms = {"bid": "100", "deadline": "+20m"}
    wanted = {"model": "tiny", "training_file": victim.file}
    return [
        {**wanted, "market": terms},
        {**wanted, "market": {**terms, "what_if": True}},
        {**wanted, "market": {"quote": victim.quote, "line": 0}},
        {**wanted, "training_file": victim.adapter, "market": terms},
        {**wanted, "validation_file": victim.file, "market": terms},
        {"id": "victoria"},
        {"user": "victoria"},
        {"url": "https://thief.example/hook"},
    ]


def answers(served: Served, victim: Victim, key: str) -> Iterator[tuple[str, httpx2.Response]]:
    queries: list[dict[str, Any]] = [
        {},
        {"after": victim.job},
        {"after": victim.file},
        {"limit": 100},
        {"metadata[where]": "treasure island"},
    ]
    with served.http(key) as http:
        for method, route in routes(served):
            for path in paths(route, victim):
                for body in bodies(victim) if method == "POST" else [None]:
                    for query in queries if method == "GET" else [{}]:
                        name = f"{method} {path} {query or body or ''}"
                        yield name, http.request(method, path, params=query, json=body)


def told_by(answer: httpx2.Response, asked: str) -> str:
    """An answer's words but those that were in the question."""
    text = f"{answer.headers} {answer.text}"
    for word in re.findall(r"[\w.-]+", asked):
        if answer.status_code >= 400:
            text = text.replace(word, "")
    return text


@pytest.mark.slow
def test_nobody_else_sees_or_touches_anything_of_hers(served: Served, victim: Victim) -> None:
    before = whole_view(served, victim)
    thief = served.key("thief")
    seen = 0
    for name, answer in answers(served, victim, thief):
        seen += 1
        assert answer.status_code < 500, name
        told = told_by(answer, name)
        leaks = [word for word in victim.hers if word in told]
        assert not leaks, f"{name} gives away {leaks}: {answer.text[:300]}"
    assert seen > 100
    assert whole_view(served, victim) == before


def test_no_page_shows_or_touches_anything_of_hers(served: Served, victim: Victim) -> None:
    before = whole_view(served, victim)
    thief = PageVisitor(served, served.key("thief-of-pages"))
    token, seen = thief.token(), 0
    for route, method, _ in page_routes():
        if route in ("/sign-in", "/sign-out"):
            continue
        for path in paths("/page" + route, victim):
            fields = [
                {"training_file": victim.file, "bid": "100", "deadline": "+20m"},
                {"line": "0"},
            ]
            for values in fields if method == "POST" else [{"after": victim.job}]:
                sent = {"csrf": token, **values} if method == "POST" else None
                query = values if method == "GET" else None
                answer = thief.http.request(method, path, params=query, data=sent)
                assert answer.status_code < 500, path
                told = told_by(answer, f"{path} {values}")
                # A form that is wrong comes back as it was filled in.
                told = told.replace(victim.file, "") if "training_file" in values else told
                leaks = [word for word in victim.hers if word in told]
                assert not leaks, f"{method} {path} gives away {leaks}: {answer.text[:300]}"
                seen += 1
    assert seen > 40
    assert whole_view(served, victim) == before


def test_without_a_key_there_is_nothing_but_health(served: Served, victim: Victim) -> None:
    allowed = {"/health", "/ready"}
    with httpx2.Client(base_url=served.url, verify=False) as http:
        for method, route in routes(served):
            for path in paths(route, victim):
                answer = http.request(method, path)
                assert (answer.status_code == 200) == (path in allowed), f"{method} {path}"


def test_a_revoked_key_opens_nothing_at_once(served: Served, victim: Victim) -> None:
    secret = served.key("fired")
    key = next(k.id for k in served.service.accounts.all_keys() if k.user == "fired")
    with served.http(secret) as http, served.http(served.operator) as operator:
        assert http.get("/v1/files").status_code == 200
        assert operator.delete(f"/v1/keys/{key}").json()["revoked_at"] is not None
        assert http.get("/v1/files").status_code == 401


def test_metrics_are_an_operators_and_name_users_only_with_what_they_have_used(
    served: Served, victim: Victim
) -> None:
    with served.http(served.operator) as http:
        text = http.get("/metrics").text
    assert "auctune_decisions_total" in text
    others = "".join(line for line in text.splitlines() if not line.startswith("auctune_used_"))
    assert not any(word in others for word in victim.hers)
    with served.http(served.key("curious")) as http:
        assert http.get("/metrics").status_code == 403


def test_the_walk_would_find_a_leak(served: Served, victim: Victim) -> None:
    found: set[str] = set()
    with served.http(victim.key) as http:
        for method, route in routes(served):
            if method == "GET" and "stream" not in route:
                text = " ".join(http.get(path).text for path in paths(route, victim))
                found |= {word for word in victim.hers if word in text}
    # All but her key's secret, which no answer holds, not even to her.
    assert found == set(victim.hers) - {victim.key}


def whole_view(served: Served, victim: Victim) -> list[Any]:
    seen: list[Any] = []
    with served.http(victim.key) as http:
        for path in (
            "/v1/files",
            "/v1/fine_tuning/jobs",
            f"/v1/fine_tuning/jobs/{victim.job}/events",
            f"/v1/fine_tuning/jobs/{victim.job}/checkpoints",
            f"/v1/quotes/{victim.quote}",
            "/v1/webhooks",
            "/v1/ledger",
            "/v1/ledger/entries",
        ):
            answer = http.get(path)
            assert answer.status_code == 200, path
            seen.append(answer.json())
        assert http.get(f"/v1/files/{victim.file}/content").text == SECRET_ROWS
    return seen
