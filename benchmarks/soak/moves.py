"""What clients do: bid, ask again, accept quotes, try, look, change their minds, make mistakes."""

import json
from collections.abc import Sequence
from typing import Any

from soak.client import Client
from soak.diary import Deeds, Request
from soak.move import Move

_BAD: tuple[dict[str, Any], ...] = (
    {"market": {"bid": "-1", "deadline": "+60s", "zone": "owned"}},
    {"market": {"bid": "1", "deadline": "yesterday", "zone": "owned"}},
    {"market": {"bid": "1", "zone": "owned"}},
    {"market": {"bid": "much", "deadline": "+60s"}},
    {"market": {"bid": "1", "deadline": "+60s", "zone": "nowhere"}},
    {"market": {"target_loss": 1.0, "deadline": "+100d", "max_cost": "1", "zone": "pool"}},
    {"market": {"target_loss": 1.0, "deadline": "+60s", "max_cost": "1", "zone": "rented"}},
    {"market": {"target_loss": -1, "deadline": "+60s", "max_cost": "1", "zone": "pool"}},
    {"market": {"target_loss": 1.0, "deadline": "+60s", "max_cost": "1", "zone": "owned"}},
    {"market": {"bid": "1", "deadline": "+60s", "lora": {"rank": 0}}},
    {"market": {"quote": "quote-unknown", "line": 0}},
    {"model": "gpt-unknown"},
    {"training_file": "file-unknown"},
    {"hyperparameters": {"n_epochs": 0}},
    {"seed": "seven"},
    {"unheard": "of"},
)
_BYTES = (b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"model": "tiny"}')


class Bid:
    """A bid, sent until it is answered where that is safe; some are sent once more then."""

    name, weight = "bid", 62.0

    def make(self, client: Client) -> None:
        """See `Move`."""
        request = client.bid()
        client.send_until_answered(request)
        if request.jobs and "idempotency-key" in request.headers and client.draw.random() < 0.1:
            client.send(request)


class AskAgain:
    """An old request with an idempotency key, answered or not, once more."""

    name, weight = "ask again", 4.0

    def make(self, client: Client) -> None:
        """See `Move`."""
        known = [one for one in client.diary.requests[-300:] if one.headers and one.jobs]
        if known:
            client.send(client.draw.choice(known))


class AcceptQuote:
    """A quote, and a line of it; or the estimate of a zone that meters."""

    name, weight = "accept a quote", 6.0

    def make(self, client: Client) -> None:
        """See `Move`."""
        draw = client.draw
        asked = json.loads(client.bid().body)
        token = asked.pop("metadata")["token"]
        quoted = client.ask("POST", "/v1/quotes", json.dumps(asked).encode())
        if quoted is None or quoted.status != 200:
            return
        quote = quoted.body
        terms, price = {"quote": quote["id"]}, None
        if quote["lines"]:
            line = draw.choice(quote["lines"])
            terms, price = {**terms, "line": line["line"]}, line["price"]
        body = {"market": terms, "metadata": {"token": token}}
        accepted = Request(
            token, json.dumps(body).encode(), {"idempotency-key": token}, is_repeatable=True
        )
        accepted.agreed = price
        client.send_until_answered(accepted)


class DryRun:
    """A bid that must leave no trace."""

    name, weight = "dry run", 4.0

    def make(self, client: Client) -> None:
        """See `Move`."""
        request = client.bid({"what_if": True})
        request.makes_job = False
        client.send(request)


class Mistake:
    """A request that is refused, and leaves no trace."""

    name, weight = "mistake", 5.0

    def make(self, client: Client) -> None:
        """See `Move`."""
        draw, right = client.draw, json.loads(client.bid().body)
        raw = draw.choice(_BYTES) if draw.random() < 0.2 else None
        wrong = {**right, **draw.choice(_BAD)}
        body = json.dumps(wrong).encode() if raw is None else raw
        token = right["metadata"]["token"]
        request = Request(token, body, {}, is_repeatable=False, makes_job=False)
        answer = client.send(request)
        if answer is not None and not 400 <= answer.status < 500:
            client.diary.wrong.append(f"{body!r} was answered with {answer.status}")


class Look:
    """A job of one's own, as it stands."""

    name, weight = "look", 20.0

    def make(self, client: Client) -> None:
        """See `Move`."""
        known = client.diary.open_jobs or list(client.diary.jobs.values())[-200:]
        if known:
            look_at(client, client.draw.choice(known).id)


class LookAtList:
    """The newest jobs of one's own."""

    name, weight = "look at the list", 2.0

    def make(self, client: Client) -> None:
        """See `Move`."""
        answer = client.ask("GET", "/v1/fine_tuning/jobs?limit=50")
        for view in [] if answer is None else answer.body["data"]:
            if view["id"] in client.diary.jobs:
                client.diary.see(view)


class Spy:
    """A job of somebody else's, which must not be there."""

    name, weight = "spy", 1.0

    def __init__(self, others: "Sequence[Client]") -> None:
        self._others = others

    def make(self, client: Client) -> None:
        """See `Move`."""
        other = client.draw.choice(self._others)
        if other.diary.user == client.diary.user or not other.diary.jobs:
            return
        job = client.draw.choice(list(other.diary.jobs))
        answer = client.ask("GET", f"/v1/fine_tuning/jobs/{job}")
        if answer is not None and answer.status != 404:
            client.diary.wrong.append(f"{client.diary.user} sees {job} of {other.diary.user}")


class Change:
    """Cancel, pause or resume a job that is not over."""

    def __init__(self, what: str, weight: float) -> None:
        self.name, self.weight = what, weight

    def make(self, client: Client) -> None:
        """See `Move`."""
        known = [job for job in client.diary.open_jobs if job.is_paused == (self.name == "resume")]
        # A new one has more before it than one that was looked at long ago.
        if known:
            change(client, client.draw.choice(known[-12:]).id, self.name)


class Upload:
    """One more data set."""

    name, weight = "upload", 0.7

    def make(self, client: Client) -> None:
        """See `Move`."""
        client.upload(client.draw.choice(list(client.sorts)))


def moves(clients: Sequence[Client]) -> tuple[Move, ...]:
    """All that clients do."""
    return (
        Bid(),
        AskAgain(),
        AcceptQuote(),
        DryRun(),
        Mistake(),
        Look(),
        LookAtList(),
        Spy(clients),
        Change("cancel", 1.5),
        Change("pause", 2.0),
        Change("resume", 3.0),
        Upload(),
    )


def look_at(client: Client, job: str) -> None:
    """Read a job again."""
    answer = client.ask("GET", f"/v1/fine_tuning/jobs/{job}")
    if answer is None:
        return
    if answer.status != 200:
        client.diary.wrong.append(f"{job} was there, and now: {answer.content!r}")
    else:
        client.diary.see(answer.body)


def change(client: Client, job: str, what: str) -> int | None:
    """Have something done to a job; the status, none: nobody answered."""
    deeds = client.diary.deeds.setdefault(job, Deeds())
    answer = client.ask("POST", f"/v1/fine_tuning/jobs/{job}/{what}")
    if answer is None:
        deeds.unknown[what] += 1
        return None
    if answer.status == 200:
        deeds.done[what] += 1
        client.diary.see(answer.body)
    return answer.status
