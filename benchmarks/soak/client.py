"""A client of the service, and its record of what it sent and received."""

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from soak.environment import RETRY_SECONDS, Environment, Response
from soak.observed_job import JobView, ObservedJob
from soak.zones import DATA_SETS, ZONES
from support.service_process import upload_form

# The share of bids that leave the choice of the zone to the market.
_NO_ZONE_SHARE = 0.03


@dataclass
class JobRequest:
    """A request for a job, sent once or several times.

    Attributes:
        token: unique name of the request, in the job's metadata.
        body: as sent.
        headers: as sent, without the header that counts retries.
        is_repeatable: whether a retry cannot create a second job.
        may_create_job: `False` for dry runs and invalid requests.
        agreed_price: price of the accepted line of a quote; `None` for a bid.
        first_view: job in the response to the first attempt, if that created one.
        job_ids: ids of jobs in responses.
        num_sent: number of attempts.
        num_unanswered: attempts without a response.
        refusal: HTTP status and error code of the newest refusal.
    """

    token: str
    body: bytes
    headers: dict[str, str]
    is_repeatable: bool
    may_create_job: bool = True
    agreed_price: str | None = None
    first_view: JobView | None = None
    job_ids: set[str] = field(default_factory=set)
    num_sent: int = 0
    num_unanswered: int = 0
    refusal: tuple[int, str | None] | None = None

    @property
    def is_answered(self) -> bool:
        """Whether an attempt had a response."""
        return self.num_sent > self.num_unanswered


@dataclass
class JobChanges:
    """Requests to cancel, pause or resume a job, counted by that verb.

    Attributes:
        acknowledged: with status 200.
        unanswered: without a response, so that they may have taken effect.
    """

    acknowledged: Counter[str] = field(default_factory=Counter)
    unanswered: Counter[str] = field(default_factory=Counter)


@dataclass
class ClientRecord:
    """What a client sent and received, to be compared with the log.

    Attributes:
        user: of the client.
        key: API key.
        requests: requests for jobs.
        jobs: jobs in responses, by id.
        changes: by job.
        statuses: HTTP statuses, counted.
        actions: counted by name.
        violations: responses that are wrong by themselves.
    """

    user: str
    key: str
    requests: list[JobRequest] = field(default_factory=list)
    jobs: dict[str, ObservedJob] = field(default_factory=dict)
    changes: dict[str, JobChanges] = field(default_factory=dict)
    statuses: Counter[int] = field(default_factory=Counter)
    actions: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    @property
    def open_jobs(self) -> list[ObservedJob]:
        """Jobs that had not ended when last observed."""
        return [job for job in list(self.jobs.values()) if not job.has_ended]


class Client:
    """A client with one API key, which sends one request at a time.

    Args:
        record: of what it sends and receives.
        environment: with the service.
        rng: to draw from.
        weights: relative frequencies of bids for each of `ZONES`; by default the zones' own.

    Attributes:
        files: ids of its data sets, by their key in `DATA_SETS`.
    """

    def __init__(
        self,
        record: ClientRecord,
        environment: Environment,
        rng: random.Random,
        weights: Sequence[float] | None = None,
    ) -> None:
        self.record = record
        self.environment = environment
        self.rng = rng
        self.files: dict[str, list[str]] = {}
        self._weights = weights or [zone.weight for zone in ZONES]
        self._num_tokens = 0

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response | None:
        """Send one request; return `None` after a pause if no response arrived."""
        response = self.environment.send(method, path, body, headers, self.record.key)
        if response is None:
            self.environment.stop_requested.wait(RETRY_SECONDS)
            return None
        self.record.statuses[response.status] += 1
        if response.status >= 500:
            self.record.violations.append(
                f"{method} {path}: {response.status} {response.content[:300]!r}"
            )
        return response

    def get(self, path: str) -> Response:
        """Send a GET request until a response arrives."""
        while (response := self.send("GET", path)) is None:
            pass
        return response

    def bid(self, terms: Mapping[str, Any] | None = None) -> JobRequest:
        """Return a request with a random bid.

        Args:
            terms: additional fields of its `market`.
        """
        rng = self.rng
        zone = rng.choices(ZONES, self._weights)[0]
        body = zone.bid(rng, self.files)
        chosen = {} if rng.random() < _NO_ZONE_SHARE else {"zone": zone.name}
        body["market"] |= chosen | dict(terms or {})
        self._num_tokens += 1
        token = f"{self.record.user}-{self.record.key[-6:]}-{self._num_tokens}"
        body |= {"seed": rng.randrange(100), "metadata": {"token": token}}
        headers: dict[str, str] = {}
        is_repeatable = rng.random() < 0.8
        if rng.random() < 0.6:
            headers, is_repeatable = {"idempotency-key": token}, True
        return JobRequest(token, json.dumps(body).encode(), headers, is_repeatable)

    def request_job(self, request: JobRequest) -> Response | None:
        """Send a request for a job, for the first time or as a retry, and record the response."""
        if request.num_sent == 0:
            self.record.requests.append(request)
        retry = {"x-stainless-retry-count": str(request.num_sent)} if request.num_sent else {}
        request.num_sent += 1
        path = "/v1/fine_tuning/jobs"
        response = self.send("POST", path, request.body, request.headers | retry)
        if response is None:
            request.num_unanswered += 1
        elif response.status != 200:
            request.refusal = (response.status, response.error_code)
        elif request.may_create_job:
            self.observe(response.body)
            if request.num_sent == 1:
                request.first_view = response.body
            request.job_ids.add(response.body["id"])
        return response

    def request_job_until_answered(self, request: JobRequest) -> None:
        """Send a request for a job, and retry it if that is safe."""
        while self.request_job(request) is None and request.is_repeatable:
            pass

    def observe(self, view: JobView) -> None:
        """Record a job of a response."""
        self.record.jobs.setdefault(view["id"], ObservedJob(view["id"])).observe(view)

    def refresh(self, job: str) -> None:
        """Read a job again."""
        response = self.send("GET", f"/v1/fine_tuning/jobs/{job}")
        if response is None:
            return
        if response.status != 200:
            self.record.violations.append(f"{job} has disappeared: {response.content!r}")
        else:
            self.observe(response.body)

    def change(self, job: str, verb: str) -> int | None:
        """Cancel, pause or resume a job; return the status, `None` without a response."""
        changes = self.record.changes.setdefault(job, JobChanges())
        response = self.send("POST", f"/v1/fine_tuning/jobs/{job}/{verb}")
        if response is None:
            changes.unanswered[verb] += 1
            return None
        if response.status == 200:
            changes.acknowledged[verb] += 1
            self.observe(response.body)
        return response.status

    def upload(self, key: str) -> None:
        """Upload a new data set of a key in `DATA_SETS`, unless the service is down."""
        form, headers = upload_form(DATA_SETS[key](self.rng), "data")
        response = self.send("POST", "/v1/files", form, headers)
        if response is not None and response.status == 200:
            self.files.setdefault(key, []).append(response.body["id"])
