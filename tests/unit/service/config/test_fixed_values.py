"""What was a setting once is an error that says its value, which is the one that holds."""

from pathlib import Path
from typing import Any

import pytest

from auctune.domain import InputError
from auctune.edge import ErisParams
from auctune.engine import generation
from auctune.engine.data import client as data_client
from auctune.engine.generation import GeneratorSettings
from auctune.engine.runtime.nodes import NodeSettings
from auctune.engine.runtime.ray.launcher import RayLauncher
from auctune.engine.spot.job_config import SpotRayParams
from auctune.engine.vendors import RepairParams
from auctune.service import service
from auctune.service.config import edge as edge_config
from auctune.service.config import inference
from auctune.service.config.fixed_values import FIXED_VALUES
from auctune.service.config.models import read_config
from auctune.service.datasets import training_data
from auctune.service.files import repository
from auctune.service.http import connections
from auctune.service.inference import generation as answers
from auctune.service.vendors import client as vendor_client
from auctune.service.webhooks import dispatcher, registry
from auctune.service.zones.auction import kind as auction
from auctune.service.zones.core import kind as core
from auctune.service.zones.edge import supply as edge_supply
from auctune.service.zones.spot import worker as spot_worker
from auctune.service.zones.spot import zone as spot_zone
from auctune.service.zones.timeshare import kind as timeshare
from auctune.spot.job import Overhead

UNITS = {"GiB": 1024**3, "MiB": 1024**2}
REPAIR, PRICES, RAY = RepairParams(), ErisParams(), SpotRayParams()
VALUES: dict[str, Any] = {
    "limits.streams": service.MAX_STREAMS,
    "limits.requests": service.MAX_REQUESTS,
    "limits.connections": connections.MAX_CONNECTIONS,
    "limits.uploads": repository.MAX_UPLOADS,
    "limits.uploads_per_day": repository.UPLOADS_PER_DAY,
    "limits.upload_bytes_per_day": repository.UPLOAD_BYTES_PER_DAY,
    "limits.examination_seconds": data_client.MAX_FILE_SECONDS,
    "limits.bid_bytes_per_day": service.BID_BYTES_PER_DAY,
    "limits.webhooks": registry.MAX_WEBHOOKS,
    "limits.reserved_bytes": service.RESERVED_BYTES,
    "webhooks.max_attempts": dispatcher.MAX_ATTEMPTS,
    "webhooks.initial_backoff_seconds": dispatcher.INITIAL_BACKOFF_SECONDS,
    "inference.niceness": inference.NICENESS,
    "inference.sold_share": inference.SOLD_SHARE,
    "inference.max_waiting": answers.MAX_WAITING,
    "inference.idle_seconds": generation.IDLE_SECONDS,
    "zones.measure_seconds": core.MEASURE_SECONDS,
    "zones.sample_tokens": auction.SAMPLE_TOKENS,
    "zones.backend": NodeSettings("", "").backend,
    "zones.quote_seconds": training_data.QUOTE_SECONDS,
    "zones.builtin_vendor.name": REPAIR.name,
    "zones.builtin_vendor.min_characters": REPAIR.min_characters,
    "zones.builtin_vendor.max_characters": REPAIR.max_characters,
    "zones.builtin_vendor.similarity": REPAIR.similarity,
    "zones.vendors.answer_seconds": vendor_client.ANSWER_SECONDS,
    "zones.vendors.poll_seconds": vendor_client.POLL_SECONDS,
    "zones.vendors.max_result_bytes": vendor_client.MAX_RESULT_BYTES,
    "zones.ray.lease_seconds": RayLauncher.lease_seconds,
    "zones.ray.missing_seconds": RayLauncher.missing_seconds,
    "zones.ray.spot_resource": RAY.spot,
    "zones.ray.on_demand_resource": RAY.on_demand,
    "zones.n_min": spot_zone.MIN_INSTANCES,
    "zones.mu1": Overhead().mu1,
    "zones.mu2": Overhead().mu2,
    "zones.checkpoint_seconds": spot_worker.CHECKPOINT_SECONDS,
    "zones.slots": timeshare.NUM_SLOTS,
    "zones.chunk_mb": edge_config.CHUNK_MB,
    "zones.step_seconds": edge_supply.STEP_SECONDS,
    "zones.pricing.kind": PRICES.pricing,
    "zones.pricing.weight": PRICES.weight,
    "zones.pricing.rise": PRICES.rise,
}
# Those that are no single value, each with a test of its own.
RULES = {"limits.burst", "zones.changeover", "zones.prefork", "zones.pricing.base"}

OF_KINDS = {
    "zones.n_min": "spot", "zones.changeover": "spot", "zones.mu1": "spot", "zones.mu2": "spot",
    "zones.prefork": "spot", "zones.checkpoint_seconds": "spot",
    "zones.ray.spot_resource": "spot", "zones.ray.on_demand_resource": "spot",
    "zones.slots": "timeshare", "zones.chunk_mb": "edge", "zones.step_seconds": "edge",
    "zones.pricing.kind": "edge", "zones.pricing.weight": "edge", "zones.pricing.rise": "edge",
    "zones.pricing.base": "edge",
}  # fmt: skip
REQUIRED = {"spot": 'market = "market.csv"\nprovider = "ray"\n', "auction": 'executor = "ray"\n'}


def settings_with(key: str) -> tuple[str, str]:
    """A file with a key, otherwise valid; and the place of the key."""
    table, _, name = key.rpartition(".")
    setting = f"{name} = 1\n"
    if not table.startswith("zones"):
        return f"[{table}]\n{setting}", key
    kind = OF_KINDS.get(key, "auction")
    zone = f'[[zones]]\nkind = "{kind}"\n{REQUIRED.get(kind, "")}'
    place = f"zones[0]{table.removeprefix('zones')}"
    if table == "zones.vendors":
        vendor = 'name = "mender"\nurl = "https://mender.example"\ntoken_file = "token"\n'
        return f"{zone}[[zones.vendors]]\n{vendor}{setting}", f"{place}[0].{name}"
    return zone + setting if table == "zones" else f"{zone}[{table}]\n{setting}", f"{place}.{name}"


@pytest.mark.parametrize("key", FIXED_VALUES)
def test_a_former_key_is_one_error_with_its_value_that_says_what_to_do(
    key: str, tmp_path: Path
) -> None:
    text, place = settings_with(key)
    file = tmp_path / "auctune.toml"
    file.write_text(text)
    with pytest.raises(InputError) as refused:
        read_config(file)
    assert str(refused.value) == (
        f"{file}: {place}: is no longer a setting: it is always {FIXED_VALUES[key][0]}; "
        "expected the key to be removed"
    )
    file.write_text("\n".join(line for line in text.splitlines() if not line.endswith("= 1")))
    assert read_config(file)


def test_each_value_is_the_one_that_holds() -> None:
    assert VALUES.keys() | RULES == FIXED_VALUES.keys()
    for key, value in VALUES.items():
        said, unit, *_ = *FIXED_VALUES[key][0].split(), ""
        if isinstance(value, str):
            assert said == f"`{value}`", key
        else:
            assert float(said.replace(",", "")) * UNITS.get(unit, 1) == value, key


def test_a_key_has_a_burst_of_twice_its_rate_and_at_least_one_request() -> None:
    assert service._request_rate(300.0)._burst == 600.0
    assert service._request_rate(0.1)._burst == 1.0


def test_only_answers_of_a_service_give_way_to_what_is_sold() -> None:
    own = GeneratorSettings(base="tiny", cache=Path())
    assert (own.niceness, own.sold_share) == (0, 1.0)
