"""A zone's log decided again by `auctune replay`: all must come out as it was."""

import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from soak.kind import SoakKind


def check_replays(config: Path, data: Path, kinds: Iterable[SoakKind]) -> Iterator[str]:
    """What comes out otherwise.

    Args:
        config: settings of the service.
        data: its folder.
        kinds: of its zones.
    """
    for kind in kinds:
        if not kind.replays:
            continue
        command = [sys.executable, "-m", "auctune", "replay", "--data", str(data)]
        command += ["--config", str(config), "--zone", kind.zone, "--json"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            told = (ended.stdout + ended.stderr)[-1500:]
            yield f"{kind.zone} does not replay ({ended.returncode}): {told}"
