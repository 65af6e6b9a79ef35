"""Fuzz the API of a running service: `python benchmarks/fuzz_api.py URL KEY [EXAMPLES]`.

KEY is an operator's, which reaches all routes. Use a service for this purpose only: its nodes are
drained, and keys created and revoked. Streams do not end, and are left out.
"""

import subprocess
import sys

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)


def main(url: str, key: str, examples: str = "500") -> int:
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json"]
    command += ["--header", f"Authorization: Bearer {key}", "--max-examples", examples]
    command += ["--checks", ",".join(CHECKS), "--exclude-path-regex", "/stream$"]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
