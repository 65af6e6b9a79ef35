"""What the service returns at the end: all jobs, balances, prices, and the results of training."""

import io
import json
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from safetensors.numpy import load

from soak.client import Client
from soak.environment import Environment, Response
from soak.observed_job import JobView
from soak.zones import ZONES


@dataclass
class FinalState:
    """Responses of the service when all jobs have ended.

    Attributes:
        views: jobs as their owners see them, by id.
        balances: by account.
        prices: tables of auctions, by zone.
        num_results: adapters and networks that load.
        violations: missing results, and those that do not load.
    """

    views: dict[str, JobView] = field(default_factory=dict)
    balances: dict[str, str] = field(default_factory=dict)
    prices: dict[str, dict[str, Any]] = field(default_factory=dict)
    num_results: int = 0
    violations: list[str] = field(default_factory=list)

    def compare(self, restarted: "FinalState") -> Iterator[str]:
        """Yield the differences after a restart of the service."""
        for job, view in self.views.items():
            if restarted.views.get(job) != view:
                yield f"{job} differs after a restart: {view}, {restarted.views.get(job)}"
        if self.balances != restarted.balances:
            yield f"balances differ after a restart: {self.balances}, {restarted.balances}"


def read_final_state(environment: Environment, clients: Sequence[Client]) -> FinalState:
    """Read jobs, balances and prices from the service."""
    state = FinalState()
    for client in clients:
        for name, job in client.record.jobs.items():
            client.refresh(name)
            state.views[name] = job.view
    state.balances = environment.get("/v1/ledger/balances").body["accounts"]
    for zone in ZONES:
        zone_state = environment.get(f"/v1/zones/{zone.name}/state").body
        if zone_state["kind"] == "auction":
            state.prices[zone.name] = _price_table(zone_state)
    return state


def _price_table(zone_state: dict[str, Any]) -> dict[str, Any]:
    """Return the prices and use of an auction, [slot, node], as a mechanism's state names them."""
    sections = zone_state["sections"]
    table: dict[str, Any] = {"first_slot": sections[0]["rows"][0][0]}
    for section in sections:
        resource, rows = section["title"].lower(), section["rows"]
        # After the slot and its time, price and use alternate.
        table[f"{resource}_price"] = [row[2::2] for row in rows]
        table[f"{resource}_used"] = [row[3::2] for row in rows]
    return table


def check_results(clients: Sequence[Client], state: FinalState) -> None:
    """Download the results of all jobs, and check that they load."""
    for client in clients:
        for name, job in client.record.jobs.items():
            files = job.view["result_files"]
            if job.view["status"] == "succeeded" and not files:
                state.violations.append(f"{name} has succeeded without a result")
            # First its metrics, then its adapter.
            for file in files[1:]:
                problem = _problem_of(client.get(f"/v1/files/{file}/content"))
                if problem is None:
                    state.num_results += 1
                else:
                    state.violations.append(f"{name}: {file} {problem}")


def _problem_of(response: Response) -> str | None:
    """Return what is wrong with a result's archive, or `None` if its weights load."""
    if response.status != 200:
        return f"is missing: {response.content[:200]!r}"
    try:
        archive = zipfile.ZipFile(io.BytesIO(response.content))
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
        return "has weights that are not finite"
    return None
