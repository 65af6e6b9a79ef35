"""Bids over raw sockets: a load that takes little of the machine that it shares."""

import asyncio
import json
import random
import time
from collections import Counter, deque
from dataclasses import dataclass, field

from support.service_process import ServiceProcess, rows_of

_HEAD = (
    "POST /v1/fine_tuning/jobs HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n"
    "content-type: application/json\r\n{repeat}content-length: {length}\r\n\r\n"
)


@dataclass
class Bidder:
    """A user who bids for one data set again and again.

    Attributes:
        key: the user's.
        file: the data set's id.
        has_tokens: whether each bid carries an idempotency key.
        deadline: least and most from now, and in what.
    """

    key: str
    file: str
    has_tokens: bool = False
    deadline: tuple[int, int, str] = (30, 47, "h")

    def request(self, token: str, draw: random.Random) -> bytes:
        least, most, unit = self.deadline
        body = json.dumps(
            {
                "model": "tiny",
                "training_file": self.file,
                "hyperparameters": {"n_epochs": draw.randrange(1, 5), "batch_size": 4},
                "seed": 1,
                "metadata": {"token": token},
                "market": {
                    "bid": f"{draw.lognormvariate(-2, 2):.4f}",
                    "deadline": f"+{draw.randrange(least, most)}{unit}",
                    "lora": {"rank": draw.choice((4, 8, 16))},
                },
            }
        ).encode()
        repeat = f"idempotency-key: {token}\r\n" if self.has_tokens else ""
        head = _HEAD.format(key=self.key, repeat=repeat, length=len(body))
        return head.encode() + body


def make_bidders(service: ServiceProcess, count: int) -> list[Bidder]:
    bidders = []
    operator = service.key
    for number in range(count):
        name = f"user{number}"
        status, made = service.ask("POST", "/v1/users", {"id": name})
        assert status == 200, made
        status, made = service.ask("POST", "/v1/keys", {"user": name, "role": "user"})
        assert status == 200, made
        service.use_key(made["secret"])
        bidders.append(Bidder(made["secret"], service.upload(rows_of(40))))
        service.use_key(operator)
    return bidders


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A bid that was answered.

    Attributes:
        token: the bidder's own name for it.
        job: its id.
        is_decided: whether it was decided when it was answered.
        payment: as answered; none: it was rejected, or is not decided.
        request: as it was sent.
    """

    token: str
    job: str
    is_decided: bool
    payment: str | None
    request: bytes


@dataclass
class Load:
    """Bids at scheduled times, over some connections.

    Attributes:
        answers: of each bid that was acknowledged, in the order of answers.
        waits: seconds from each bid's scheduled time to its answer.
        statuses: of HTTP, counted.
        unknown: token and request of each bid that was sent and not answered.
        again: the same of bids to be made once more, before others.
        scheduled: bids of the latest run.
        begun, last_answer: when the latest run began and when its last bid was acknowledged, by
            `time.perf_counter`.
    """

    address: tuple[str, int]
    bidders: list[Bidder]
    connections: int
    rate: float
    draw: random.Random
    answers: list[Acknowledged] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    unknown: list[tuple[str, bytes]] = field(default_factory=list)
    again: list[tuple[str, bytes]] = field(default_factory=list)
    count: int = 0
    scheduled: int = 0
    begun: float = 0.0
    last_answer: float = 0.0

    async def run(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        idle: deque[_Connection] = deque()
        made = []
        for _ in range(self.connections):
            _, one = await loop.create_connection(lambda: _Connection(self, idle), *self.address)
            made.append(one)
            idle.append(one)
        self._due: deque[tuple[float, str, bytes]] = deque()
        begin, sent = time.perf_counter(), 0
        self.begun, self.last_answer, self.scheduled = begin, begin, len(self.again)
        self._due.extend((begin, *bid) for bid in self.again)
        self.again = []
        while (now := time.perf_counter()) < begin + seconds and not all(c.gone for c in made):
            for number in range(sent, int((now - begin) * self.rate)):
                self.count += 1
                token = f"bid-{self.draw.getrandbits(64):016x}-{self.count}"
                bidder = self.bidders[self.count % len(self.bidders)]
                at = begin + number / self.rate
                self._due.append((at, token, bidder.request(token, self.draw)))
                sent = number + 1
                self.scheduled += 1
            self.hand_out(idle)
            await asyncio.sleep(0.001)
        while (self._due or len(idle) < len(made)) and not all(c.gone for c in made):
            self.hand_out(idle)
            await asyncio.sleep(0.005)
        for one in made:
            one.close()

    def hand_out(self, idle: "deque[_Connection]") -> None:
        """Send what is due over connections that are free."""
        while self._due and idle:
            one = idle.popleft()
            if not one.gone:
                one.send(*self._due.popleft())


class _Connection(asyncio.Protocol):
    def __init__(self, load: Load, idle: "deque[_Connection]") -> None:
        self._load = load
        self._idle = idle
        self._received = b""
        self._request = b""
        self._token = ""
        self.gone = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def send(self, at: float, token: str, request: bytes) -> None:
        self._at, self._token, self._request, self._received = at, token, request, b""
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, blank, body = self._received.partition(b"\r\n\r\n")
        if not blank:
            return
        lower = head.lower()
        start = lower.index(b"content-length:") + 15
        if len(body) < int(lower[start:].split(b"\r\n", 1)[0]):
            return
        load, status = self._load, int(head[9:12])
        load.statuses[status] += 1
        if status == 200:
            load.last_answer = time.perf_counter()
            load.waits.append(load.last_answer - self._at)
            job, payment = _text(body, b'"id":'), _text(body, b'"payment":')
            assert job is not None
            is_decided = _text(body, b'"decision":') is not None
            load.answers.append(Acknowledged(self._token, job, is_decided, payment, self._request))
        elif status >= 500:
            load.unknown.append((self._token, self._request))
        self._token = ""
        self._idle.append(self)
        load.hand_out(self._idle)

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone = True
        if self._token:
            self._load.unknown.append((self._token, self._request))

    def close(self) -> None:
        self._transport.close()


def _text(body: bytes, name: bytes) -> str | None:
    """The first text of a name in JSON; none: it is null."""
    start = body.index(name) + len(name)
    if body[start : start + 1] != b'"':
        return None
    return body[start + 1 : body.index(b'"', start + 1)].decode()
