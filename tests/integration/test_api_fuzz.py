"""Whatever the served document allows, and whatever it does not: no 5xx, no answer beside it."""

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from hypothesis.strategies import booleans
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from support.serving import Served, make_file, make_pool, make_zone, serving
from support.spot_zones import spot_zone

pytest_plugins = ["support.tiny_bases"]
pytestmark = pytest.mark.slow

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, tiny_cache: Path) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("market")
    file = make_file([make_zone(), make_pool(), spot_zone(tmp_path_factory.mktemp("files"))])
    with serving(folder, file, bases=tiny_cache) as opened:
        yield opened


@pytest.fixture(autouse=True)
def unclosed() -> Iterator[None]:
    """What the fuzzer's own client leaves open is swept up here and not held against us."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed <socket", ResourceWarning)
        yield
        gc.collect()


@pytest.fixture(scope="module")
def document(served: Served) -> schemathesis.BaseSchema:
    # A stream goes on until its job is over; streams have tests of their own.
    found = schemathesis.openapi.from_url(f"{served.url}/openapi.json")
    return found.exclude(path_regex="/stream$")


@pytest.fixture(scope="module")
def real(served: Served) -> dict[str, str]:
    """Identifiers of what there is: made-up ones are refused before they get far."""
    client = served.client()
    file = served.upload()
    with served.http() as http:
        body = {"model": "tiny", "training_file": file, "market": {"zone": "default"}}
        quote = http.post("/v1/quotes", json=body).json()["id"]
        hook = http.post("/v1/webhooks", json={"url": "https://a.example/"}).json()["id"]
    return {
        "job_id": served.bid(client, file).id,
        "file_id": file,
        "quote_id": quote,
        "webhook_id": hook,
        "zone_id": "default",
        "node_id": "default-0",
        "user_id": "nobody",
        "key_id": "key-none",
        "model": "tiny",
    }


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_no_answer_is_a_fault_or_beside_the_document(
    document: schemathesis.BaseSchema, served: Served, real: dict[str, str], mode: GenerationMode
) -> None:
    tried = 0
    for found in document.get_all_operations():
        assert isinstance(found, Ok), found
        operation = found.ok()
        is_operators = operation.path.startswith(OPERATORS)
        key = served.operator if is_operators else served.users["ada"]
        try:
            fuzz(operation, mode, key, real)
        except Unsatisfiable:
            # A route without parameters has nothing that could be wrong.
            assert mode is GenerationMode.NEGATIVE
        else:
            tried += 1
    assert tried > 20


OPERATORS = ("/v1/zones", "/v1/users", "/v1/teams", "/v1/keys", "/v1/ledger", "/metrics")


ANSWERS = ("/v1/chat/completions", "/v1/completions")
MESSAGES = [{"role": "user", "content": "Is it warm?"}]


def fuzz(operation: Any, mode: GenerationMode, key: str, real: dict[str, str]) -> None:
    """Some requests for a route, and what is said of their answers."""

    @given(case=operation.as_strategy(generation_mode=mode), is_real=booleans())
    @settings(
        max_examples=20,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def check(case: Any, is_real: bool) -> None:
        if is_real:
            case.path_parameters.update(
                {name: real[name] for name in case.path_parameters if name in real}
            )
            if operation.path in ANSWERS and isinstance(case.body, dict):
                # Short answers to something that can be read.
                case.body.update(model="tiny", max_tokens=2, n=1, prompt="Once", messages=MESSAGES)
                case.body.pop("prompt" if "chat" in operation.path else "messages")
                case.body.pop("max_completion_tokens", None)
            if isinstance(case.body, dict) and "training_file" in case.body:
                terms = case.body.get("market")
                kept = {"lora": terms["lora"]} if terms and "lora" in terms else {}
                # Of both zones, each by what it asks for.
                target = {"target_loss": 0.5} if case.body.get("seed") else {}
                market = {"bid": "12.50", "deadline": "+10m", **target, **kept}
                case.body.update(model="tiny", training_file=real["file_id"], market=market)
                case.body.pop("validation_file", None)
        case.call_and_validate(headers={"Authorization": f"Bearer {key}"}, checks=CHECKS)

    check()
