"""A script for OpenAI runs from upload to a stream, changed by two variables alone."""

import json
import sys
from pathlib import Path

import pytest

from support.openai_service import MODEL, openai_service, run_client

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parent.parent / "data" / "openai_script.py"


def test_an_unchanged_script_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    source = SCRIPT.read_text()
    for word in ("auctune", "market", "extra_", "base_url", "api_key", "http", "environ"):
        assert word not in source.lower()
    work = tmp_path / "work"
    work.mkdir()
    with openai_service(tmp_path) as service:
        printed = run_client([sys.executable, str(SCRIPT)], service, work)
    found = json.loads(printed.splitlines()[-1])
    assert found["model"].startswith(f"ft:{MODEL}:marv:")
    assert found["checkpoints"] == 2
    assert found["streamed"]
