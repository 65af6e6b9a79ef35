"""Requests that state no terms run on defaults, and say whose these are."""

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import openai
import orjson
import pytest

from auctune.domain import InputError
from auctune.files.schema import check_schema
from auctune.service.accounts.registry import DefaultTerms
from auctune.service.config.models import KeyConfig, ServiceConfig, UserConfig
from auctune.service.server import seed_accounts
from support.command_line import run_auctune
from support.serving import Served, make_file, make_pool, make_zone, serving

ALIAS = "gpt-4o-mini-2024-07-18"
SERVICE = DefaultTerms(bid=Decimal("10.00"), deadline="+20m")
FROM_SERVICE = {
    "bid": {"value": "10.0000", "of": "service"},
    "deadline": {"value": "+20m", "of": "service"},
}


def settings(*zones: Any, **changes: Any) -> ServiceConfig:
    update = {"default_terms": SERVICE, "model_aliases": {ALIAS: "tiny"}, **changes}
    return make_file(zones or [make_zone()]).model_copy(update=update)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("market"), settings()) as made:
        yield made


def create(client: openai.OpenAI, file: str, **market: Any) -> Any:
    body = {"extra_body": {"market": market}} if market else {}
    return client.fine_tuning.jobs.create(model=ALIAS, training_file=file, **body)


def put(served: Served, kind: str, body: dict[str, Any]) -> dict[str, Any]:
    with served.http(served.operator) as http:
        answer = http.post(f"/v1/{kind}", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def new_user(served: Served, name: str, **fields: Any) -> tuple[openai.OpenAI, str, str]:
    """A user's client, the id of its key, and an uploaded file."""
    put(served, "users", {"id": name, **fields})
    key = put(served, "keys", {"user": name})
    return served.client(key["secret"]), key["id"], served.upload(key["secret"])


def test_an_unchanged_script_of_openai_gets_its_job(served: Served) -> None:
    client, _, file = new_user(served, "plain")
    job = create(client, file)
    assert (job.status, job.model) == ("queued", "tiny")
    assert job.market["default_terms"] == FROM_SERVICE
    assert job.market["bid"] == "10.0000"
    assert job.market["deadline"] == served.clock() + 20 * 60
    again = client.fine_tuning.jobs.retrieve(job.id)
    assert again.market == job.market


def test_a_command_without_terms_gets_the_job_that_the_api_gives(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    client, _, file = new_user(served, "typing")
    where = ("--url", served.url, "--api-key", client.api_key)
    code, out, lines = run_auctune(["submit", file, "--json", *where], monkeypatch, capsys)
    assert (code, lines) == (0, [])
    assert json.loads(out)["market"]["default_terms"] == FROM_SERVICE


def test_what_a_request_states_is_its_own(served: Served) -> None:
    client, _, file = new_user(served, "stating")
    job = create(client, file, bid="3", deadline="+10m", zone="default")
    assert (job.market["bid"], job.market["default_terms"]) == ("3.0000", {})
    partly = create(client, file, value={"amount": "3", "deadline": "+10m"})
    assert (partly.market["bid"], partly.market["default_terms"]) == ("3.0000", {})
    late = create(client, file, bid="3")
    assert late.market["default_terms"] == {"deadline": FROM_SERVICE["deadline"]}


def test_a_default_does_not_stand_in_for_half_of_an_amount(served: Served) -> None:
    client, _, file = new_user(served, "capped")
    # A cap is an amount of the request: the default bid is not taken beside it.
    with pytest.raises(openai.BadRequestError, match=r"market\.bid: is missing") as refused:
        create(client, file, max_cost="5")
    assert "--default-bid" in refused.value.message


def test_key_user_team_and_service_in_this_order_field_by_field(served: Served) -> None:
    put(served, "teams", {"id": "lab", "default_terms": {"bid": "4", "zone": "default"}})
    client, key, file = new_user(served, "ann", team="lab", default_terms={"bid": "5"})
    assert create(client, file).market["default_terms"] == {
        "bid": {"value": "5.0000", "of": "user ann"},
        "deadline": FROM_SERVICE["deadline"],
        "zone": {"value": "default", "of": "team lab"},
    }
    changed = put(served, f"keys/{key}", {"default_terms": {"deadline": "+15m", "bid": "6"}})
    assert changed["default_terms"]["bid"] == "6.0000"
    terms = create(client, file).market["default_terms"]
    assert {name: one["of"] for name, one in terms.items()} == {
        "bid": f"key {key}",
        "deadline": f"key {key}",
        "zone": "team lab",
    }
    # Null removes a field, and an omitted one stays.
    put(served, f"keys/{key}", {"default_terms": {"bid": None}})
    put(served, "users", {"id": "ann", "default_terms": None})
    terms = create(client, file).market["default_terms"]
    assert (terms["bid"]["of"], terms["deadline"]["of"]) == ("team lab", f"key {key}")


def test_a_quote_is_on_the_same_terms_and_is_accepted_on_them(served: Served) -> None:
    client, _, file = new_user(served, "asking")
    body = {"model": ALIAS, "training_file": file}
    quote: Any = client.post("/quotes", body=body, cast_to=object)
    assert (quote["model"], quote["default_terms"]) == ("tiny", FROM_SERVICE)
    assert all(line["finish"] <= served.clock() + 20 * 60 for line in quote["lines"])
    job = create(client, file, quote=quote["id"], line=0)
    assert job.status == "queued"
    assert job.market["payment"] == quote["lines"][0]["price"]
    # The bid is the price of the line; the deadline is the one quoted for.
    assert job.market["default_terms"] == {"deadline": FROM_SERVICE["deadline"]}


@pytest.mark.parametrize(
    ("kind", "body", "param"),
    [
        ("users", {"id": "bad", "default_terms": {"bid": "-1"}}, "default_terms.bid"),
        ("teams", {"id": "bad", "default_terms": {"deadline": "2h"}}, "default_terms.deadline"),
        ("users", {"id": "bad", "default_terms": {"zone": "moon"}}, "default_terms.zone"),
        ("keys", {"user": "operator", "default_terms": {"zone": "moon"}}, "default_terms.zone"),
        ("users", {"id": "bad", "default_terms": {"due": "+2h"}}, "default_terms.due"),
    ],
)
def test_terms_that_cannot_be_are_refused_by_name(
    served: Served, kind: str, body: dict[str, Any], param: str
) -> None:
    with served.http(served.operator) as http:
        answer = http.post(f"/v1/{kind}", json=body)
        known = [one["id"] for one in http.get("/v1/users").json()["data"]]
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param), answer.text
    assert "bad" not in known


def test_a_name_that_nobody_knows_is_refused_with_those_that_are(served: Served) -> None:
    client, _, file = new_user(served, "guessing")
    with pytest.raises(openai.BadRequestError) as refused:
        client.fine_tuning.jobs.create(model="gpt-9", training_file=file)
    assert refused.value.param == "model"
    assert ALIAS in refused.value.message
    assert "[model_aliases]" in refused.value.message


def test_only_operators_change_keys(served: Served) -> None:
    client, key, _ = new_user(served, "curious")
    with served.http(client.api_key) as http:
        assert http.post(f"/v1/keys/{key}", json={}).status_code == 403
    with served.http(served.operator) as http:
        assert http.post("/v1/keys/key-none", json={}).status_code == 404


def test_without_defaults_the_error_says_how_to_set_one(tmp_path: Path) -> None:
    with serving(tmp_path) as made:
        client, _, file = new_user(made, "ada")
        for market, option in (({}, "--default-bid"), ({"bid": "1"}, "--default-deadline")):
            with pytest.raises(openai.BadRequestError, match="is missing") as refused:
                client.fine_tuning.jobs.create(
                    model="tiny", training_file=file, extra_body={"market": market}
                )
            assert f"auctune users add NAME {option}" in refused.value.message


def test_terms_of_a_job_and_of_accounts_outlive_the_service(tmp_path: Path) -> None:
    with serving(tmp_path, settings()) as made:
        client, key, file = new_user(made, "ada", default_terms={"bid": "7"})
        put(made, f"keys/{key}", {"default_terms": {"deadline": "+10m"}})
        job = create(client, file)
    with serving(tmp_path, settings(default_terms=DefaultTerms()), made.clock) as again:
        client = again.client(client.api_key)
        kept = client.fine_tuning.jobs.retrieve(job.id)
        assert kept.market["default_terms"] == job.market["default_terms"]
        assert create(client, file).market["default_terms"] == {
            "bid": {"value": "7.0000", "of": "user ada"},
            "deadline": {"value": "+10m", "of": f"key {key}"},
        }


def test_terms_of_the_settings_are_those_of_first_users_and_keys(tmp_path: Path) -> None:
    secret = "s" * 40
    (tmp_path / "ada.key").write_text(secret)
    users = [UserConfig(name="ada", default_terms=DefaultTerms(bid=Decimal(2)))]
    keys = [
        KeyConfig(
            user="ada",
            secret_file=str(tmp_path / "ada.key"),
            default_terms=DefaultTerms(deadline="+11m"),
        )
    ]
    file = settings(users=users, keys=keys)
    with serving(tmp_path / "data", file) as made:
        made.run(lambda: seed_accounts(made.service, file))
        terms = create(made.client(secret), made.upload(secret)).market["default_terms"]
        assert (terms["bid"]["of"], terms["deadline"]["value"]) == ("user ada", "+11m")


def test_a_default_zone_chooses_among_those_of_a_model_and_a_default_bid_is_a_cap(
    tmp_path: Path,
) -> None:
    terms = SERVICE.model_copy(update={"zone": "pool"})
    zones = (make_zone(), make_pool(), make_zone("other", base="org/small"))
    with serving(tmp_path, settings(*zones, default_terms=terms)) as made:
        client, _, file = new_user(made, "ada")
        pooled = create(client, file, target_loss=3.0)
        assert (pooled.market["zone"], pooled.market["alternatives"]) == ("pool", [])
        assert pooled.market["metered"]["max_cost"] == "10.0000"
        assert set(pooled.market["default_terms"]) == {"bid", "deadline", "zone"}
        # The pool does not train this model.
        other = client.fine_tuning.jobs.create(model="org/small", training_file=file)
        assert (other.market["zone"], other.market["default_terms"]) == ("other", FROM_SERVICE)
        named = create(client, file, zone="default")
        assert (named.market["zone"], named.market["default_terms"]) == ("default", FROM_SERVICE)
        quote: Any = client.post(
            "/quotes",
            body={"model": ALIAS, "training_file": file, "market": {"target_loss": 3.0}},
            cast_to=object,
        )
        assert (quote["zone"], set(quote["default_terms"])) == ("pool", set(terms.to_record()))
        job = create(client, file, quote=quote["id"], max_cost="99")
        assert job.market["metered"]["max_cost"] == "99.0000"


def test_a_default_zone_that_is_gone_is_named_with_its_owner(tmp_path: Path) -> None:
    with serving(tmp_path, settings(make_zone(), make_zone("old"))) as made:
        client, _, file = new_user(made, "ada", default_terms={"zone": "old"})
    with serving(tmp_path, settings(), made.clock) as again:
        client = again.client(client.api_key)
        with pytest.raises(openai.BadRequestError, match="the default of user ada") as refused:
            create(client, file)
        assert refused.value.param == "market.zone"
        job = create(client, file, zone="default")
        again.wait_for(lambda: client.fine_tuning.jobs.retrieve(job.id), "queued")


def test_the_page_takes_a_job_without_terms(served: Served) -> None:
    # The form of the page sends the same requests as the API.
    client, _, file = new_user(served, "clicking")
    raw = orjson.dumps({"model": "tiny", "training_file": file})
    with served.http(client.api_key) as http:
        assert http.post("/v1/fine_tuning/jobs", content=raw).json()["status"] == "queued"


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"model_aliases": {ALIAS: "big"}}, f"model_aliases.{ALIAS}"),
        ({"model_aliases": {"tiny": "tiny"}}, "model_aliases.tiny"),
        ({"model_aliases": {"ft:a": "tiny"}}, "model_aliases.ft:a"),
        ({"default_terms": {"zone": "moon"}}, "default_terms.zone"),
        ({"users": [{"name": "a", "default_terms": {"zone": "m"}}]}, "users[0].default_terms.zone"),
    ],
)
def test_settings_that_name_what_is_not_there_are_refused(
    changes: dict[str, Any], place: str
) -> None:
    with pytest.raises(InputError) as refused:
        check_schema(ServiceConfig, changes, "auctune.toml")
    assert refused.value.place == f"auctune.toml: {place}"
