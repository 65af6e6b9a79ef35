"""The page, as a browser without scripts has it: sessions, forms, what stands on it."""

import codecs
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import httpx2
import pytest
from markupsafe import escape

from auctune.service.page.app import page_routes
from support.page_visitor import PageVisitor, faults
from support.serving import ROWS, Served, make_file, make_zone, serving
from support.waits import poll

EVIL = '"><img src=x onerror=alert(1)>'
NAME = f"{EVIL}.jsonl"


class Shop:
    """A market with jobs in several states, and somebody who looks at it."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.key = served.key("ada")
        self.ada = PageVisitor(served, self.key)
        self.operator = PageVisitor(served, served.operator)
        self.file = self.ada.upload(NAME, ROWS.encode())
        client = served.client(self.key)
        client.files.wait_for_processing(self.file, poll_interval=0.05)
        self.job = client.fine_tuning.jobs.create(
            model="tiny",
            training_file=self.file,
            metadata={"name": EVIL, EVIL: EVIL},
            extra_body={"market": {"bid": "100", "deadline": "+20m"}},
        ).id
        served.train(self.job, 40)
        served.train(self.job, 80)
        self.poor = served.bid(client, self.file, bid="0.0001").id
        self.quote = self.ask_prices().path.rpartition("/")[2]

    def ask_prices(self, **fields: str) -> httpx2.URL:
        answer = self.ada.post("/page/quotes", training_file=self.file, **fields)
        assert answer.status_code == 200, answer.text
        return answer.url

    def new_job(self) -> str:
        client = self.served.client(self.key)
        return str(self.served.bid(client, self.file, bid="1000000").id)

    def pages(self) -> Iterator[tuple[PageVisitor, str]]:
        """All pages of all routes that are read, each by who may see it."""
        named = {"job_id": self.job, "quote_id": self.quote, "file_id": self.file}
        named |= {"zone_id": "default", "node_id": "default-0", "name": "page.css"}
        for path, method, _ in page_routes():
            # A stream goes on until its job is over; streams have a test of their own.
            if method == "GET" and not path.endswith("/news"):
                is_operators = path.startswith(("/market", "/accounts", "/zones"))
                yield (self.operator if is_operators else self.ada, "/page" + path.format(**named))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with serving(tmp_path_factory.mktemp("market"), make_file([make_zone()])) as served:
        yield Shop(served)


@pytest.mark.slow
def test_data_are_called_by_the_name_of_their_file_where_it_may_be_seen(shop: Shop) -> None:
    name = shop.served.client(shop.key).files.retrieve(shop.file).filename
    for path in (f"/page/jobs/{shop.job}", f"/page/quotes/{shop.quote}"):
        shown = shop.ada.http.get(path).text
        assert str(escape(name)) in shown
        assert f">{shop.file}<" not in shown


@pytest.mark.slow
def test_every_page_has_the_strict_policy_and_nothing_that_it_forbids(shop: Shop) -> None:
    seen = 0
    for visitor, path in shop.pages():
        answer = visitor.get(path)
        assert answer.status_code == 200, path
        assert faults(answer) == [], path
        seen += 1
    assert seen >= 12
    for visitor in (PageVisitor(shop.served), shop.ada):
        for path in ("/page/sign-in", "/page/nothing", "/page/jobs/ftjob-none", "/page/zones/x"):
            assert faults(visitor.get(path)) == [], path


def test_what_users_name_is_text_wherever_it_stands(shop: Shop) -> None:
    for path in ("/page/files", "/page/new", "/page/jobs", f"/page/jobs/{shop.job}"):
        text = shop.ada.get(path).text
        assert "onerror=alert(1)&gt;" in text, path
        assert "<img" not in text, path
    content = shop.ada.get(f"/page/files/{shop.file}/content")
    assert content.headers["content-disposition"].startswith("attachment;")
    assert "<" not in content.headers["content-disposition"]
    assert content.content == ROWS.encode()


def test_a_session_is_a_strict_cookie_without_the_key_in_it(shop: Shop) -> None:
    stranger = PageVisitor(shop.served)
    answer = stranger.http.post("/page/sign-in", data={"key": shop.key}, follow_redirects=False)
    cookie = answer.headers["set-cookie"].lower()
    assert answer.status_code == 303
    for part in ("httponly", "samesite=strict", "path=/page"):
        assert part in cookie
    assert shop.key not in str(answer.headers)
    assert shop.key not in "".join(visitor.get(path).text for visitor, path in shop.pages())
    # The API takes keys, and no cookies.
    assert stranger.get("/v1/files").status_code == 401


def test_a_proxy_with_tls_gets_a_cookie_that_asks_for_it(shop: Shop) -> None:
    host = httpx2.URL(shop.served.url).netloc.decode()
    answer = httpx2.post(
        f"{shop.served.url}/page/sign-in",
        data={"key": shop.key},
        headers={"Origin": f"https://{host}"},
    )
    assert "secure" in answer.headers["set-cookie"].lower()


@pytest.mark.parametrize("path", ["/page/jobs", "/page/market", "/page/jobs/x?after=1"])
def test_a_stranger_is_asked_for_a_key_and_brought_back(shop: Shop, path: str) -> None:
    stranger = PageVisitor(shop.served)
    asked = stranger.get(path)
    assert asked.url.path == "/page/sign-in"
    assert asked.url.params["next"] == path
    there = {"key": shop.served.operator, "next": path}
    came = stranger.http.post("/page/sign-in", data=there, follow_redirects=False)
    assert came.headers["location"] == path


@pytest.mark.parametrize(
    "place",
    [
        "https://evil.example/",
        "//evil.example",
        "/page//evil.example",
        "/v1/files",
        "/page/\n",
        "/page/../v1/files",
        "/page/jobs/%2e%2E/../x",
        "/page/./jobs",
    ],
)
def test_nobody_is_sent_elsewhere_after_signing_in(shop: Shop, place: str) -> None:
    stranger = PageVisitor(shop.served)
    came = stranger.http.post(
        "/page/sign-in", data={"key": shop.key, "next": place}, follow_redirects=False
    )
    assert came.headers["location"] == "/page/"


def test_keys_that_do_not_open_the_page_get_no_session(shop: Shop) -> None:
    for key in ("sk-wrong", ""):
        stranger = PageVisitor(shop.served)
        answer = stranger.http.post("/page/sign-in", data={"key": key})
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers
        assert 'role="alert"' in answer.text


def test_a_session_ends_with_sign_out_and_with_its_key(shop: Shop) -> None:
    secret = shop.served.key("fired")
    leaving, fired = PageVisitor(shop.served, secret), PageVisitor(shop.served, secret)
    cookie = leaving.http.cookies["auctune_session"]
    assert leaving.post("/page/sign-out").url.path == "/page/sign-in"
    leaving.http.cookies.set("auctune_session", cookie, path="/page")
    assert leaving.get("/page/jobs").url.path == "/page/sign-in"
    assert fired.get("/page/jobs").url.path == "/page/jobs"
    key = next(k.id for k in shop.served.service.accounts.all_keys() if k.user == "fired")
    with shop.served.http(shop.served.operator) as http:
        http.delete(f"/v1/keys/{key}")
    assert fired.get("/page/jobs").url.path == "/page/sign-in"


def test_each_form_must_come_from_a_page_of_its_own_session(shop: Shop) -> None:
    named = {"job_id": shop.job, "quote_id": shop.quote, "file_id": shop.file}
    named |= {"zone_id": "default", "node_id": "default-0"}
    token, other = shop.operator.token(), shop.ada.token()
    forged = [
        ({"Origin": "https://evil.example"}, {"csrf": token}),
        ({"Origin": "null"}, {"csrf": token}),
        ({"Sec-Fetch-Site": "cross-site"}, {"csrf": token}),
        ({"Sec-Fetch-Site": "same-site"}, {"csrf": token}),
        ({}, {"csrf": other}),
        ({}, {}),
    ]
    seen = 0
    for path, method, _ in page_routes():
        if method != "POST" or path == "/sign-in":
            continue
        for headers, fields in forged:
            answer = shop.operator.http.post(
                "/page" + path.format(**named),
                data=fields,
                headers=headers,
                files={"file": ("rows.jsonl", ROWS)} if path == "/files" else None,
            )
            assert answer.status_code == 403, (path, headers, fields)
            seen += 1
    assert seen >= 60
    assert shop.operator.get("/page/jobs").url.path == "/page/jobs"
    nodes = shop.operator.get("/page/zones/default").text
    assert "Drain default-0" in nodes
    evil = {"Origin": "https://evil.example"}
    signing = shop.operator.http.post("/page/sign-in", data={"key": shop.key}, headers=evil)
    assert signing.status_code == 403


def test_operators_pages_are_operators_alone(shop: Shop) -> None:
    pages = ("/page/market", "/page/accounts", "/page/zones/default", "/page/zones/default/news")
    for path in pages:
        assert shop.ada.get(path).status_code == 403
    for path in ("pause", "nodes/default-0/drain"):
        assert shop.ada.post(f"/page/zones/default/{path}").status_code == 403
    assert "/page/market" not in shop.ada.get("/page/jobs").text


def test_an_operator_changes_budgets_and_default_terms(shop: Shop) -> None:
    user = next(one for one in shop.served.service.accounts.users() if one.id == "ada")
    changed = shop.operator.post(
        "/page/accounts", account="user ada", budget="5000", bid="7", deadline="+3h"
    )
    assert changed.status_code == 200
    assert "bid 7.0000, deadline +3h" in changed.text
    assert "5000.0000 in 30 d" in changed.text
    for account, word in (("user ada", "negative"), ("user nobody", "unknown"), ("", "missing")):
        wrong = shop.operator.post("/page/accounts", account=account, bid="-1", deadline="+4h")
        assert (wrong.status_code, word in wrong.text) == (400, True), account
        assert 'value="+4h"' in wrong.text
    assert shop.ada.post("/page/accounts", account="user ada", bid="1").status_code == 403
    gone = {"budget": "none", "bid": "none", "deadline": "none"}
    assert shop.operator.post("/page/accounts", account="user ada", **gone).status_code == 200
    assert next(one for one in shop.served.service.accounts.users() if one.id == "ada") == user


def test_a_line_of_the_menu_is_bought_by_its_button_and_once(shop: Shop) -> None:
    page = shop.ada.get(f"/page/quotes/{shop.quote}").text
    assert "Accept line 0" in page
    once = re.findall(r'name="once" value="([^"]+)"', page)[0]
    accept = f"/page/quotes/{shop.quote}/accept"
    bought = shop.ada.post(accept, line="0", once=once)
    again = shop.ada.post(accept, line="0", once=once)
    assert bought.url == again.url
    assert bought.url.path.startswith("/page/jobs/ftjob-")
    assert "planned" in bought.text


def test_a_line_that_was_taken_brings_the_menu_of_now(shop: Shop) -> None:
    place = shop.ask_prices(deadline="+2m")
    early = shop.served.client(shop.served.key("early"))
    file = shop.served.upload(shop.served.users["early"])
    while shop.served.bid(early, file, bid="1000000", deadline="+2m").market["plan"]:
        pass
    answer = shop.ada.post(f"{place.path}/accept", line="0")
    assert answer.url.path.startswith("/page/quotes/quote-")
    assert answer.url.path != place.path
    assert "Nothing was charged" in answer.text


def test_a_form_that_is_wrong_comes_back_as_it_was_filled_in(shop: Shop) -> None:
    answer = shop.ada.post(
        "/page/quotes", training_file=shop.file, deadline="soon", n_epochs="7", zone="default"
    )
    assert answer.status_code == 400
    assert "&#34;Deadline&#34;: &#39;soon&#39;; expected a time such as" in answer.text
    assert 'value="7"' in answer.text
    assert f'<option value="{shop.file}" selected>' in answer.text
    assert faults(answer) == []


def test_a_file_that_cannot_be_used_is_explained_beside_the_field_of_data_alone(
    shop: Shop,
) -> None:
    file = shop.ada.upload("bad.jsonl", b'{"neither": "text nor messages"}\n')
    files = shop.served.client(shop.key).files
    files.wait_for_processing(file, poll_interval=0.05)
    # Lists are read from the database, which knows a little later.
    poll(lambda: {one.id: one.status for one in files.list()}[file] == "error", "its status")
    page = shop.ada.get(f"/page/new?file={file}").text
    (field,) = re.findall(
        r'<div class="wide-field"><label for="training_file">.*?</div>', page, re.S
    )
    (reason,) = re.findall(r'role="alert" id="wrong">(.*?)</p>', field)
    assert "neither" in reason
    assert page.count('role="alert"') == 1
    option = re.search(rf'<option value="{file}" selected>(.*?)</option>', page)
    assert option is not None
    assert option[1].endswith("): cannot be used")
    assert reason not in option[1]
    # Its fields are not what is wrong.
    assert '<details id="more"><summary>' in page


def test_a_list_has_the_reason_of_a_failure_under_the_state(shop: Shop) -> None:
    job = shop.new_job()
    shop.served.ask(lambda zone: zone.fail(job, "data_failed", "line 3 has no text", None))
    (row,) = (row for row in shop.ada.get("/page/jobs").text.split("<tr>") if f"/jobs/{job}" in row)
    cells = dict(re.findall(r'<td data-label="(\w+)"[^>]*>(.*?)</td>', row, re.S))
    assert "line 3 has no text" in cells["state"]
    assert cells["progress"].strip() == "\N{EN DASH}"


def test_zones_take_bids_and_quotes_say_until_when_they_can_be_accepted(shop: Shop) -> None:
    market = shop.operator.get("/page/market").text
    assert ">open for bids<" in market
    assert "taken" not in market
    quote = shop.ada.get(f"/page/quotes/{shop.quote}").text
    assert ">accept until<" in quote
    assert f'<a href="/page/new?file={shop.file}">bid</a>' in quote


def test_every_page_names_the_unit_of_amounts_and_the_day_of_times(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Frozen, and read as a page is rendered.
    billing = vars(shop.served.opened.service.billing)
    for currency, unit in (("XXX", "credits"), ("EUR", "EUR")):
        monkeypatch.setitem(billing, "currency", currency)
        for visitor, path, heading in (
            (shop.ada, "jobs", "owed"),
            (shop.ada, "money", "owed"),
            (shop.operator, "market", "revenue"),
        ):
            page = visitor.get(f"/page/{path}").text
            assert f"{heading}, {unit}<" in page, path
            assert f"Amounts are in {unit}, " in page
            assert "without a date of today" in page


def test_a_bid_by_the_form_is_decided_and_a_rejection_says_what_would_do(shop: Shop) -> None:
    bid = {"training_file": shop.file, "deadline": "+20m", "place_bid": "yes"}
    admitted = shop.ada.post("/page/quotes", bid="1000000", **bid)
    assert admitted.url.path.startswith("/page/jobs/ftjob-")
    rejected = shop.ada.get(f"/page/jobs/{shop.poor}").text
    assert "the bid is not above the price" in rejected
    assert "Minimum bid: " in rejected


def test_an_owner_pauses_resumes_and_cancels(shop: Shop) -> None:
    job = shop.new_job()
    assert "Resume" in shop.ada.post(f"/page/jobs/{job}/pause").text
    assert "Pause" in shop.ada.post(f"/page/jobs/{job}/resume").text
    assert "cancelled" in shop.ada.post(f"/page/jobs/{job}/cancel").text
    over = shop.ada.post(f"/page/jobs/{job}/cancel")
    assert over.status_code == 400
    assert "The job is over." in over.text


@pytest.mark.slow
def test_an_operator_drains_a_node_and_pauses_a_zone(shop: Shop) -> None:
    place = "/page/zones/default"
    assert "Return default-1" in shop.operator.post(f"{place}/nodes/default-1/drain").text
    assert "Drain default-1" in shop.operator.post(f"{place}/nodes/default-1/return").text
    assert "takes no bids" in shop.operator.post(f"{place}/pause").text
    assert "takes no bids" not in shop.operator.post(f"{place}/resume").text
    unknown = shop.operator.post(f"{place}/nodes/nobody/drain")
    assert unknown.status_code == 400
    assert "one of default-0, default-1" in unknown.text


def test_news_come_by_number_alone_and_end_with_the_job(shop: Shop) -> None:
    job = shop.new_job()
    with shop.ada.http.stream("GET", f"/page/jobs/{job}/news") as answer:
        lines = answer.iter_lines()
        shop.served.train(job, 40)
        shop.served.finish(job, "ada")
        told = [line for line in lines if line and not line.startswith(":")]
    assert [line for line in told if not line.startswith("id: ")] == [
        "data: news",
        "data: news",
        "data: news",
        "event: over",
        "data: over",
    ]


def test_an_adapter_is_downloaded(shop: Shop) -> None:
    job = shop.new_job()
    file = shop.served.finish(job, "ada")
    assert f"/page/files/{file}/content" in shop.ada.get(f"/page/jobs/{job}").text
    assert shop.ada.get(f"/page/files/{file}/content").content == b"PK adapter"


def test_an_upload_is_limited_as_by_the_api(shop: Shop) -> None:
    # More than other bodies may have, so that the way past their limit is the one taken.
    rows = ROWS.encode() * 400
    assert len(rows) > 1 << 20
    file = shop.ada.upload("long.jsonl", rows)
    with shop.served.http(shop.key) as http:
        assert http.get(f"/v1/files/{file}").json()["bytes"] == len(rows)
        assert http.get(f"/v1/files/{file}/content").content == rows
    assert shop.ada.post(f"/page/files/{file}/delete").url.path == "/page/files"
    assert file not in shop.ada.get("/page/files").text


def test_the_history_of_the_market_adds_up_to_its_balances(shop: Shop) -> None:
    with shop.served.http(shop.served.operator) as http:
        history = http.get("/v1/ledger/history", params={"hours": 24}).json()
        accounts = http.get("/v1/ledger/balances").json()["accounts"]
    own = {
        name: amount for name, amount in accounts.items() if not name.startswith(("user:", "hold:"))
    }
    assert own
    assert {n: f"{sum(map(float, a)):.4f}" for n, a in history["accounts"].items()} == {
        name: f"{float(amount):.4f}" for name, amount in own.items()
    }
    assert all(len(one) == history["spans"] for one in history["accounts"].values())
    with shop.served.http(shop.key) as http:
        assert http.get("/v1/ledger/history").status_code == 403


def test_wrong_keys_are_limited_by_address_and_right_ones_never(shop: Shop) -> None:
    hasty = PageVisitor(shop.served, address="127.0.0.9")
    tries = [hasty.http.post("/page/sign-in", data={"key": "sk-no"}) for _ in range(33)]
    assert {one.status_code for one in tries} == {401, 429}
    assert int(tries[-1].headers["retry-after"]) >= 1
    assert "set-cookie" not in tries[-1].headers
    # Whoever else is behind the same proxy has the same address.
    neighbour = PageVisitor(shop.served, shop.key, address="127.0.0.9")
    assert neighbour.get("/page/jobs").url.path == "/page/jobs"


def test_right_keys_use_up_no_attempts(shop: Shop) -> None:
    visitor = PageVisitor(shop.served, address="127.0.0.10")
    for _ in range(40):
        visitor.http.post("/page/sign-in", data={"key": shop.key}, follow_redirects=False)
    assert visitor.http.post("/page/sign-in", data={"key": "sk-no"}).status_code == 401


@contextmanager
def watched_codec(name: str) -> Iterator[list[str]]:
    """A codec of this name, and the names by which it was looked up."""
    seen: list[str] = []

    def find(wanted: str) -> codecs.CodecInfo | None:
        if wanted != name:
            return None
        seen.append(wanted)
        return codecs.lookup("latin-1")

    codecs.register(find)
    try:
        yield seen
    finally:
        codecs.unregister(find)


def test_no_form_is_decoded_by_a_codec_that_its_sender_names(shop: Shop) -> None:
    part = b'--X\r\nContent-Disposition: form-data; name="key"\r\n\r\n' + b"9" * 8000
    multipart = part + b"\r\n--X--\r\n"
    token = shop.ada.token().encode()
    forms = [
        ("multipart/form-data; boundary=X", multipart),
        ("application/x-www-form-urlencoded", b"csrf=" + token + b"&key=" + b"9" * 8000),
    ]
    names = ["watched", "punycode", "idna", "unicode_escape", "utf-16"]
    with watched_codec("watched") as seen:
        for (kind, body), charset in product(forms, names):
            for visitor, path in (
                (PageVisitor(shop.served), "/page/sign-in"),
                (shop.ada, "/page/quotes"),
                (shop.ada, "/page/files"),
            ):
                headers = {"Content-Type": f"{kind}; charset={charset}"}
                answer = visitor.http.post(path, content=body, headers=headers)
                assert 400 <= answer.status_code < 500, (path, kind, charset)
        assert seen == []
    assert codecs.lookup("punycode").name == "punycode"


def test_a_form_is_read_up_to_its_limit_and_an_upload_only_with_its_token(shop: Shop) -> None:
    stranger = PageVisitor(shop.served)
    much = "a" * 20_000
    assert stranger.http.post("/page/sign-in", data={"key": much}).status_code == 413
    # A form for a job may name a thousand sites.
    sites = "\n".join(f"site-{n} = file-{'a' * 40}" for n in range(1000))
    answer = shop.ada.post("/page/quotes", sites=sites, zone="default")
    assert answer.status_code == 400
    assert "Data at sites" in answer.text
    assert shop.ada.post("/page/quotes", sites=much * 20).status_code == 413
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        yield b'--x\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n'
        while sent < 50_000_000:
            sent += 10_000
            yield b"r" * 10_000

    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    try:
        status = shop.ada.http.post("/page/files", content=endless(), headers=headers).status_code
    except httpx2.TransportError:
        status = 403
    assert status == 403
    assert sent < 50_000_000


@pytest.mark.slow
def test_the_token_of_a_session_is_in_no_url(shop: Shop) -> None:
    token = shop.ada.token()
    seen = 0
    for visitor, path in shop.pages():
        text = visitor.get(path).text
        for url in re.findall(r'(?:action|href|src|hx-[a-z]+)="([^"]*)"', text):
            assert "csrf" not in url, (path, url)
            seen += 1
    assert seen > 50
    fields = {"purpose": "fine-tune"}
    file = {"file": ("rows.jsonl", ROWS)}
    in_url = shop.ada.http.post(f"/page/files?csrf={token}", data=fields, files=file)
    assert in_url.status_code == 403
    # The file is not read before the token.
    late = {"file": ("rows.jsonl", ROWS), "csrf": (None, token), "purpose": (None, "fine-tune")}
    assert shop.ada.http.post("/page/files", files=late).status_code == 403
    assert shop.ada.http.post("/page/files", data={"csrf": token}, files=file).status_code == 400
    with shop.served.http(shop.key) as http:
        other = http.post("/v1/files", data={**fields, "csrf": token}, files=file)
        assert (other.status_code, other.json()["error"]["param"]) == (400, "csrf")


def test_a_cookie_costs_what_its_length_costs(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    unquoted: list[str] = []
    monkeypatch.setattr("http.cookies._unquote", unquoted.append)
    odd = 'odd="' + "\\1" * 20_000 + '"'
    session = f"auctune_session={shop.ada.http.cookies['auctune_session']}"
    for cookies, place in ((odd, "/page/sign-in"), (f"{odd}; {session}", "/page/jobs")):
        answer = PageVisitor(shop.served).http.get("/page/jobs", headers={"Cookie": cookies})
        assert answer.url.path == place
    assert unquoted == []


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "https://a]b", "://"])
def test_an_origin_that_is_no_url_is_another_site(shop: Shop, origin: str) -> None:
    stranger = PageVisitor(shop.served)
    answer = stranger.http.post("/page/sign-in", data={"key": shop.key}, headers={"Origin": origin})
    assert answer.status_code == 403


@pytest.mark.parametrize("proxies", [[], ["127.0.0.1"]], ids=["no proxy", "a proxy"])
def test_a_trusted_proxy_says_whose_address_it_is_and_whether_it_speaks_tls(
    tmp_path: Path, proxies: list[str]
) -> None:
    file = make_file([make_zone()]).model_copy(update={"trusted_proxies": proxies})
    with serving(tmp_path, file) as served:
        visitor = PageVisitor(served)

        def sign_in(address: str, key: str) -> httpx2.Response:
            headers = {"X-Forwarded-For": address, "X-Forwarded-Proto": "https"}
            headers["Sec-Fetch-Site"] = "same-origin"
            return visitor.http.post(
                "/page/sign-in", data={"key": key}, headers=headers, follow_redirects=False
            )

        tries = [sign_in("198.51.100.7", "sk-no").status_code for _ in range(60)]
        assert tries[-1] == 429
        other = sign_in("198.51.100.8", "sk-no")
        assert other.status_code == (401 if proxies else 429)
        cookie = sign_in("198.51.100.7", served.key("ada")).headers["set-cookie"]
        assert ("secure" in cookie.lower()) == bool(proxies)
