"""The command `auctune`, in a process in which some constants have other values.

    python -m support.patched_auctune '{"auctune.module.NAME": 1.0}' serve --config ...

A constant is set where it is read.
"""

import json
import pkgutil
import sys
from collections.abc import Mapping

from auctune.cli.app import main as run

Constants = Mapping[str, float]
"""Values by the path of a constant of a module or class."""


def patched_command(constants: Constants) -> list[str]:
    """The beginning of a command line of `auctune`, in which these constants hold."""
    if not constants:
        return [sys.executable, "-u", "-m", "auctune"]
    return [sys.executable, "-u", "-m", "support.patched_auctune", json.dumps(dict(constants))]


def main() -> None:
    constants = json.loads(sys.argv.pop(1))
    for path, value in constants.items():
        where, _, name = path.rpartition(".")
        owner = pkgutil.resolve_name(where)
        assert hasattr(owner, name), path
        setattr(owner, name, value)
    run()


if __name__ == "__main__":
    main()
