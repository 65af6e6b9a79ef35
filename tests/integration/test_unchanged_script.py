"""A script for OpenAI runs from upload to a stream, changed by two variables alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.service_process import running, write_service
from support.tiny_architecture import tiny_architecture

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parent.parent / "data" / "openai_script.py"
OPERATOR = """
[default_terms]
bid = "100.00"
deadline = "+10m"

[model_aliases]
"gpt-4o-mini-2024-07-18" = "tiny"
"""


def test_an_unchanged_script_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    source = SCRIPT.read_text()
    for word in ("auctune", "market", "extra_", "base_url", "api_key", "http", "environ"):
        assert word not in source.lower()
    config = write_service(
        tmp_path / "service", tiny_architecture(), slot_seconds=2.0, slots=600, more=OPERATOR
    )
    work = tmp_path / "work"
    work.mkdir()
    with running(config, tmp_path / "data") as service:
        variables = {"OPENAI_BASE_URL": f"{service.url}/v1", "OPENAI_API_KEY": service.key}
        done = subprocess.run(
            [sys.executable, str(SCRIPT)],
            cwd=work,
            env={"PATH": os.environ["PATH"], **variables},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr + service.log.read_text()
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["model"].startswith("ft:gpt-4o-mini-2024-07-18:marv:")
    assert found["checkpoints"] == 2
    assert found["streamed"]
