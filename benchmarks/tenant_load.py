"""What the users of `tenants.py` send: the one who is measured, and the seven beside it."""

import asyncio
import math
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx2

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from support.load import Bidder
from support.service_process import rows_of, upload_form

NUM_TENANTS = 7
NICENESS = 10
# Between the response to a request of the user and its next one of the same kind.
PAUSE_SECONDS = 0.2
# How long a connection of the seven waits after a 429.
PAUSE_AFTER_429 = 1.0
BIDS_PER_SECOND = 20.0
MAX_RETRIES = 2
JOBS, QUOTES, FILES = "/v1/fine_tuning/jobs", "/v1/quotes", "/v1/files"
ALL = "all together"
UPLOAD, EXAMINED, ANSWER = "upload of 1 kB", "upload until examined", "answer of 8 tokens"
LARGEST_METADATA = {f"{number:064}": "m" * 512 for number in range(16)}
SMALL_FILE = rows_of(9)
LARGE_ROW = rows_of(1).replace(b"It is", b"It is " + b"1 of 19, " * 200)
LARGE_FILE = LARGE_ROW * (1_900_000 // len(LARGE_ROW))
QUESTION = {
    "model": "tiny",
    "messages": [{"role": "user", "content": "What is 2 and 3?"}],
    "max_tokens": 8,
}
# The tiny base continues this prompt, greedily, as long as it may.
ENDLESS = {"model": "tiny", "prompt": [5] * 8, "temperature": 0}
# Method, path and further arguments of `httpx2.AsyncClient.request`.
Request = tuple[str, str, dict[str, Any]]


def bid(file: str, metadata: Mapping[str, str]) -> Request:
    return "POST", JOBS, {"json": {**_terms(file), "metadata": metadata}}


def quote(file: str) -> Request:
    return "POST", QUOTES, {"json": _terms(file)}


def upload(content: bytes) -> Request:
    body, headers = upload_form(content, "data.jsonl")
    return "POST", FILES, {"content": body, "headers": headers}


def answer(**more: Any) -> Request:
    return "POST", "/v1/completions", {"json": {**ENDLESS, **more}}


def read(path: str, **query: Any) -> Request:
    return "GET", path, {"params": query}


def _terms(file: str) -> dict[str, Any]:
    market = {"bid": "0.1", "deadline": "+36h"}
    return {"model": "tiny", "training_file": file, "market": market}


@dataclass(frozen=True, slots=True)
class Load:
    """A kind of request that the seven send.

    Attributes:
        request: by the id of the sender's data set.
        rate: requests per second of the seven together; infinite: each as soon as one is answered.
        connections: of the seven together, so the most requests in flight.
    """

    request: Callable[[str], Request]
    rate: float
    connections: int


LOADS = {
    "searches": Load(lambda _: read(JOBS, limit=100, **{"metadata[no]": "x"}), 30, 56),
    "jobs": Load(lambda _: read(JOBS, limit=100), 85, 56),
    "files": Load(lambda _: read(FILES, limit=10_000), 50, 56),
    "quotes": Load(quote, 50, 56),
    "models": Load(lambda _: read("/v1/models"), 140, 56),
    "bids": Load(lambda file: bid(file, LARGEST_METADATA), 100, 56),
    "uploads": Load(lambda _: upload(LARGE_FILE), 1.4, 7),
    "streams": Load(lambda _: answer(max_tokens=200, stream=True), math.inf, 14),
    "n16": Load(lambda _: answer(max_tokens=480, n=16), math.inf, 8),
}
# All kinds together are 100 requests per second, beside the answers.
RATE_IN_ALL, CONNECTIONS_IN_ALL = 0.22, 14


class User:
    """Client of a user, over connections that stay open."""

    def __init__(self, url: str, bidder: Bidder) -> None:
        self.file = bidder.file
        self.http = httpx2.AsyncClient(
            base_url=url,
            headers={"authorization": f"Bearer {bidder.key}"},
            timeout=300,
            # The service closes connections without a request after 5 seconds.
            limits=httpx2.Limits(keepalive_expiry=3),
        )

    async def send(self, request: Request) -> httpx2.Response:
        """Send a request and read the whole response.

        The service closes connections that seem idle to it, also while a request is on its way; as
        OpenAI's client does, this one then sends the request up to two more times, as a retry.
        """
        method, path, arguments = request
        num_retries = 0
        while True:
            headers = {**arguments.get("headers", {}), "x-stainless-retry-count": f"{num_retries}"}
            try:
                return await self.http.request(method, path, **{**arguments, "headers": headers})
            except httpx2.TransportError:
                num_retries += 1
                if num_retries > MAX_RETRIES:
                    raise

    async def wait_until_examined(self, file: str, poll_seconds: float) -> httpx2.Response:
        """Return the first response in which a file has been examined, or an error."""
        while True:
            response = await self.send(read(f"{FILES}/{file}"))
            if response.status_code != 200 or response.json()["status"] != "uploaded":
                return response
            await asyncio.sleep(poll_seconds)

    async def fill(self, num_jobs: int, num_files: int) -> None:
        """Make jobs with the largest metadata, and files."""
        for _ in range(num_jobs):
            (await self.send(bid(self.file, LARGEST_METADATA))).raise_for_status()
        for _ in range(num_files):
            file = (await self.send(upload(SMALL_FILE))).raise_for_status().json()["id"]
            await self.wait_until_examined(file, 0.1)


# Requests that the user repeats, by the id of its data set, and what a right response has.
REPEATED: Mapping[str, tuple[Callable[[str], Request], Callable[[Any], bool]]] = {
    # Jobs of others have other metadata.
    "job list": (
        lambda _: read(JOBS, limit=20),
        lambda page: all(list(job["metadata"]) == ["due"] for job in page["data"]),
    ),
    "quote": (quote, lambda body: len(body["lines"]) > 0),
    UPLOAD: (lambda _: upload(SMALL_FILE), lambda file: bool(file["bytes"] == len(SMALL_FILE))),
    # The base may end its answer before.
    ANSWER: (
        lambda _: ("POST", "/v1/chat/completions", {"json": QUESTION}),
        lambda body: 1 <= body["usage"]["completion_tokens"] <= 8,
    ),
}


@dataclass
class HonestUser:
    """The user who is measured.

    Attributes:
        user: its client.
        latencies: seconds of right responses, by request.
        failures: errors and wrong responses, counted.
        jobs: ids of acknowledged bids.
        num_bids: bids that were sent.
    """

    user: User
    latencies: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    failures: Counter[str] = field(default_factory=Counter)
    jobs: set[str] = field(default_factory=set)
    num_bids: int = 0

    async def run(self, seconds: float) -> None:
        """Send requests for some seconds, and wait for the last responses."""
        begin = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for name in REPEATED:
                tasks.create_task(self._repeat(name, begin + seconds))
            while (due := begin + self.num_bids / BIDS_PER_SECOND) < begin + seconds:
                await asyncio.sleep(due - time.perf_counter())
                self.num_bids += 1
                tasks.create_task(self._bid(due, {"due": f"{due}"}))

    async def _bid(self, due: float, metadata: dict[str, str]) -> None:
        response = await self.user.send(bid(self.user.file, metadata))
        job = self.add("bid", due, response, lambda job: bool(job["metadata"] == metadata))
        self.jobs.update([job["id"]] if job else [])

    async def _repeat(self, name: str, end: float) -> None:
        request, is_right = REPEATED[name]
        while (now := time.perf_counter()) < end:
            body = self.add(name, now, await self.user.send(request(self.user.file)), is_right)
            if name == UPLOAD and body is not None:
                response = await self.user.wait_until_examined(body["id"], 0.01)
                self.add(EXAMINED, now, response, lambda file: bool(file["status"] == "processed"))
            await asyncio.sleep(PAUSE_SECONDS)

    def add(
        self, name: str, since: float, response: httpx2.Response, is_right: Callable[[Any], bool]
    ) -> Any:
        """Count a response; return its body, or `None` if it failed or is wrong."""
        seconds = time.perf_counter() - since
        if response.status_code == 200 and is_right(body := response.json()):
            self.latencies[name].append(seconds)
            return body
        self.failures[f"{name}: {response.status_code} {response.text[:200]}"] += 1
        return None


def send_loads(pipe: Connection, url: str, tenants: Sequence[Bidder]) -> None:
    """Send each load that is named, until the next message; reply with its statuses, counted.

    The first message says that the process is ready.
    """
    os.nice(NICENESS)
    pipe.send("ready")
    while True:
        pipe.send(asyncio.run(_send_load(pipe, pipe.recv(), [User(url, one) for one in tenants])))


async def _send_load(pipe: Connection, name: str, users: Sequence[User]) -> Counter[str]:
    stop, statuses = asyncio.Event(), Counter[str]()

    async def send(kind: str, user: User, period: float, due: float) -> None:
        while not stop.is_set():
            try:
                await asyncio.wait_for(stop.wait(), due - time.perf_counter())
            except TimeoutError:
                response = await user.send(LOADS[kind].request(user.file))
                if kind == "uploads" and response.status_code == 200:
                    response = await user.wait_until_examined(response.json()["id"], 0.5)
                statuses[f"{kind}: {response.status_code}"] += 1
                pause = PAUSE_AFTER_429 if response.status_code == 429 else 0.0
                due = max(due + period, time.perf_counter() + pause)

    answers = []
    async with asyncio.TaskGroup() as tasks:
        for kind, load in LOADS.items() if name == ALL else [(name, LOADS[name])]:
            rate, connections = load.rate, load.connections
            if name == ALL:
                rate, connections = RATE_IN_ALL * rate, min(CONNECTIONS_IN_ALL, connections)
            for number in range(connections):
                user, due = users[number % NUM_TENANTS], time.perf_counter() + number / rate
                task = tasks.create_task(send(kind, user, connections / rate, due))
                answers += [task] if rate == math.inf else []
        while not pipe.poll():
            await asyncio.sleep(0.05)
        pipe.recv()
        stop.set()
        # Answers may take minutes. Other requests end: nothing is left of them for what comes next.
        for task in answers:
            task.cancel()
    for user in users:
        await user.http.aclose()
    return statuses
