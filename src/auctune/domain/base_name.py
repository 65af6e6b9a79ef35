"""What a base's name stands for; known without the libraries that load it.

| name | stands for |
| --- | --- |
| tiny | the toy base, built on the machine |
| a path | a folder in transformers' format, relative to the file that names it |
| org/name | a model on the hub, if it is no folder and no folder `org` is beside the file |
| hub:name | a model on the hub |

Whatever else looks like a path is a folder that is not there: a mistyped path fetches nothing.
"""

import re
from pathlib import Path
from typing import Literal

from auctune.domain.errors import InputError

HUB = "hub:"
BaseDtype = Literal["float32", "bfloat16", "nf4"]
"""Number type of a base's weights: `nf4` has 4 bits a number, and computes in bfloat16."""
DTYPE_WORDS = "`float32`, `bfloat16`, or `nf4`: 4 bits a number by bitsandbytes, as for QLoRA"
EXPECTED = 'the name "tiny", a folder that transformers can load, or hub:NAME for one on the hub'

_HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
_WITH_ORGANIZATION = re.compile(r"(?P<organization>\w[\w.-]*)/\w[\w.-]*")


def resolve_base(name: str, folder: Path) -> str:
    """Return a base's name as it holds in any working directory.

    Args:
        name: as a user named it.
        folder: that relative paths start from.

    Returns:
        "tiny", the absolute path of a folder, or "hub:" and a name on the hub.

    Raises:
        InputError: if it is none of these.
    """
    if name == "tiny":
        return name
    if name.startswith(HUB):
        if _HUB_NAME.fullmatch(name.removeprefix(HUB)):
            return name
        raise InputError(f"base {name!r}", "is not a name on the hub", "hub:NAME or hub:ORG/NAME")
    try:
        path = folder / Path(name).expanduser()
        if name and path.is_dir():
            return str(path.absolute())
        matched = _WITH_ORGANIZATION.fullmatch(name)
        if matched and not (folder / matched["organization"]).is_dir():
            return HUB + name
    except (OSError, RuntimeError):
        # A name that is too long, or begins with a "~user" that there is not.
        pass
    raise InputError(f"base {name!r}", "is unknown: there is no such folder", EXPECTED)
