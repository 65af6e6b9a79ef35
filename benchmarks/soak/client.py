"""A client: one move after the other, each at random, and a diary of it all."""

import json
import random
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from soak.data_sets import MakeData
from soak.diary import Diary, Request
from soak.kind import SoakKind
from soak.move import Move
from soak.stage import Stage
from soak.transport import Answer, ask
from support.service_process import upload_form

# A service that is started again is away for seconds, and on a busy machine for more.
_PATIENCE_SECONDS = 0.5


class Client:
    """What all moves of a client share.

    Args:
        diary: of what it did.
        stage: with the service.
        kinds: of zones.
        draw: everything random.
        weights: how many of its bids are for a kind, by comparison; by the kinds' own if `None`.

    Attributes:
        files: ids of its data sets, by sort.
    """

    def __init__(
        self,
        diary: Diary,
        stage: Stage,
        kinds: Sequence[SoakKind],
        draw: random.Random,
        weights: Sequence[float] | None = None,
    ) -> None:
        self.diary = diary
        self.stage = stage
        self.kinds = kinds
        self.draw = draw
        self.files: dict[str, list[str]] = {}
        self._weights = weights or [kind.weight for kind in kinds]
        self._numbers = 0

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer | None:
        """A request; none: nobody answered."""
        answer = ask(self.stage.service.address, self.diary.key, method, path, body, headers)
        if answer is None:
            self.stage.over.wait(_PATIENCE_SECONDS)
            return None
        self.diary.statuses[answer.status] += 1
        if answer.status >= 500:
            self.diary.wrong.append(f"{method} {path}: {answer.status} {answer.content[:300]!r}")
        return answer

    def insist(self, method: str, path: str) -> Answer:
        """The same, of what may be asked again and again, until somebody answers."""
        while (answer := self.ask(method, path)) is None:
            pass
        return answer

    def token(self) -> str:
        """A new name for a request."""
        self._numbers += 1
        return f"{self.diary.user}-{self.diary.key[-6:]}-{self._numbers}"

    def send(self, request: Request) -> Answer | None:
        """Make a request for a job, for the first time or again."""
        if request.tries == 0:
            self.diary.requests.append(request)
        again = {"x-stainless-retry-count": str(request.tries)} if request.tries else {}
        request.tries += 1
        answer = self.ask("POST", "/v1/fine_tuning/jobs", request.body, request.headers | again)
        if answer is None:
            request.lost += 1
        elif answer.status != 200:
            request.refused = (answer.status, answer.code)
        elif request.makes_job:
            job = self.diary.see(answer.body)
            if request.tries == 1:
                request.first = answer.body
            request.jobs.add(job.id)
        return answer

    def send_until_answered(self, request: Request) -> Answer | None:
        """Make a request, again if that is safe; none: nobody knows what became of it."""
        answer = self.send(request)
        while answer is None and request.is_repeatable:
            answer = self.send(request)
        return answer

    def bid(self, fields: Mapping[str, Any] | None = None) -> Request:
        """A request with a random bid.

        Args:
            fields: of `market` beside it.
        """
        draw = self.draw
        kind = draw.choices(self.kinds, self._weights)[0]
        body = kind.bid(draw, self.files)
        # One in many leaves the choice of the zone to the market.
        zone = {} if draw.random() < 0.03 else {"zone": kind.zone}
        body["market"] |= zone | dict(fields or {})
        token = self.token()
        body |= {"seed": draw.randrange(100), "metadata": {"token": token}}
        headers: dict[str, str] = {}
        is_repeatable = draw.random() < 0.8
        if draw.random() < 0.6:
            headers, is_repeatable = {"idempotency-key": token}, True
        return Request(token, json.dumps(body).encode(), headers, is_repeatable)

    @property
    def sorts(self) -> dict[str, MakeData]:
        """What it may bring, by sort."""
        return {name: make for kind in self.kinds for name, make in kind.data_sets.items()}

    def upload(self, sort: str) -> None:
        """One more data set, if the service is there to take it."""
        form, headers = upload_form(self.sorts[sort](self.draw), "data")
        answer = self.ask("POST", "/v1/files", form, headers)
        if answer is not None and answer.status == 200:
            self.files.setdefault(sort, []).append(answer.body["id"])


class ClientThread(threading.Thread):
    """Makes moves until it is over; what breaks it is the soak's own fault.

    Args:
        client: that moves.
        moves: by weight.
        pause: mean seconds between two moves.
    """

    def __init__(self, client: Client, moves: Sequence[Move], pause: float) -> None:
        super().__init__(daemon=True)
        self.client = client
        self._moves = moves
        self._pause = pause
        self.failure: BaseException | None = None

    def run(self) -> None:
        """See `threading.Thread`."""
        try:
            self._run()
        except BaseException as error:
            self.failure = error
            raise

    def _run(self) -> None:
        client = self.client
        weights = [move.weight for move in self._moves]
        while not client.stage.over.wait(client.draw.expovariate(1 / self._pause)):
            move = client.draw.choices(self._moves, weights)[0]
            client.diary.moves[move.name] += 1
            move.make(client)
