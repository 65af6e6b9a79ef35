"""What a service says at the end: every job, all balances, all prices, and what came out."""

import io
import json
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from safetensors.numpy import load

from soak.client import Client
from soak.kind import SoakKind
from soak.moves import look_at
from soak.stage import Stage
from soak.transport import Answer, ask


@dataclass
class Served:
    """Of one life.

    Attributes:
        views: of jobs, by id, as their owners see them.
        balances: by account.
        prices: tables of zones with nodes, by zone.
        num_results: adapters and networks that came, and load.
        wrong: what does not.
    """

    views: dict[str, dict[str, Any]] = field(default_factory=dict)
    balances: dict[str, str] = field(default_factory=dict)
    prices: dict[str, dict[str, Any]] = field(default_factory=dict)
    num_results: int = 0
    wrong: list[str] = field(default_factory=list)

    def compare(self, later: "Served") -> Iterator[str]:
        """What the next life says otherwise."""
        for name, view in self.views.items():
            if later.views.get(name) != view:
                yield f"{name} is another one after a restart: {view}, {later.views.get(name)}"
        if self.balances != later.balances:
            yield f"balances after a restart: {self.balances}, {later.balances}"


def read_served(stage: Stage, clients: Sequence[Client], kinds: Sequence[SoakKind]) -> Served:
    """Ask for all of it; results are not looked at."""
    served = Served()
    for client in clients:
        for name, job in client.diary.jobs.items():
            look_at(client, name)
            served.views[name] = job.view
    served.balances = _operator(stage, "/v1/ledger/balances").body["accounts"]
    for kind in kinds:
        answer = _operator(stage, f"/v1/zones/{kind.zone}/state")
        if answer.body["kind"] == "auction":
            served.prices[kind.zone] = answer.body
    return served


def check_results(clients: Sequence[Client], served: Served) -> None:
    """Fetch what came out of all jobs: each is an adapter that loads."""
    for client in clients:
        for name, job in client.diary.jobs.items():
            files = job.view["result_files"]
            if job.view["status"] == "succeeded" and not files:
                served.wrong.append(f"{name} is finished, and nothing came out")
            for file in files:
                answer = client.insist("GET", f"/v1/files/{file}/content")
                wrong = _fault_of(answer)
                served.num_results += wrong is None
                served.wrong += [] if wrong is None else [f"{name}: {file} {wrong}"]


def _fault_of(answer: Answer) -> str | None:
    """What is wrong with an archive; none: its weights load."""
    if answer.status != 200:
        return f"is not there: {answer.content[:200]!r}"
    try:
        archive = zipfile.ZipFile(io.BytesIO(answer.content))
        names = archive.namelist()
        model = next(name for name in names if name.endswith("model.safetensors"))
        weights = load(archive.read(model))
        for name in names:
            if name.endswith(".json"):
                json.loads(archive.read(name))
    except (zipfile.BadZipFile, StopIteration, ValueError, KeyError) as error:
        return f"does not load: {error!r}"
    if not weights:
        return "has no weights"
    if not all(np.isfinite(array).all() for array in weights.values()):
        return "has weights that are no numbers"
    return None


def _operator(stage: Stage, path: str) -> Answer:
    while (answer := ask(stage.service.address, stage.service.key, "GET", path)) is None:
        stage.over.wait(0.5)
    return answer
