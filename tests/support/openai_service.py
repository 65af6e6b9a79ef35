"""A service as clients of OpenAI expect it, and such clients in processes of their own."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.service_process import ServiceProcess, running, write_service
from support.tiny_architecture import tiny_architecture
from support.waits import WAIT_SECONDS

MODEL = "gpt-4o-mini-2024-07-18"
_OPERATOR = f"""
[default_terms]
bid = "100.00"
deadline = "+10m"

[model_aliases]
"{MODEL}" = "tiny"
"""


@contextmanager
def openai_service(folder: Path) -> Iterator[ServiceProcess]:
    """Serve `tiny` by the name of one of OpenAI's models; jobs need no terms."""
    config = write_service(
        folder / "service", tiny_architecture(), slot_seconds=2.0, slots=600, more=_OPERATOR
    )
    with running(config, folder / "data") as service:
        yield service


def run_client(command: list[str], service: ServiceProcess, folder: Path, **variables: str) -> str:
    """Run a client of this service to its end, in a folder; what it printed.

    The two variables that users set are its only ones, unless more are given.
    """
    both = {"OPENAI_BASE_URL": f"{service.url}/v1", "OPENAI_API_KEY": service.key}
    done = subprocess.run(
        command,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **both, **variables},
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr + service.log.read_text()
    return done.stdout
