"""A program that tries each CUDA device with a small matrix product and writes what came of it.

JSON on standard output, an object for each device: name, total_bytes, free_bytes, and error, which
is null where the product came out right. A driver may hang; whoever starts this has a time limit.
"""

import json
from typing import Any

import torch

_SIDE = 512


def trial(device: torch.device) -> dict[str, Any]:
    """What one device has, and whether it computes."""
    facts: dict[str, Any] = {"name": str(device), "free_bytes": 0, "total_bytes": 0, "error": None}
    try:
        if device.type == "cuda":
            facts["name"] = torch.cuda.get_device_name(device)
            facts["free_bytes"], facts["total_bytes"] = torch.cuda.mem_get_info(device)
        ones = torch.ones(_SIDE, _SIDE, device=device)
        if not bool((ones @ ones == _SIDE).all()):
            facts["error"] = "a product came out wrong"
    except RuntimeError as error:
        facts["error"] = str(error).splitlines()[0]
    return facts


def main() -> None:
    """Try them all."""
    count = torch.cuda.device_count()
    print(json.dumps([trial(torch.device("cuda", index)) for index in range(count)]))


if __name__ == "__main__":
    main()
