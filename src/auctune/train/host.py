"""Facts of this machine: libraries, CPU, devices and memory; and a trial of each CUDA device.

    python -P -m auctune.train.host

writes a list of JSON on standard output, an object for each CUDA device: name, total_bytes,
free_bytes, and error, which is null where a small matrix product came out right. A driver may hang;
the caller has a time limit. Importing the module does not load torch.
"""

import json
import os
import platform
import re
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

LIBRARIES = ("torch", "transformers", "peft")
CPU_FACTS = Path("/proc/cpuinfo")
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
OWN_PAGES = Path("/proc/self/statm")

GPU_RESERVE = 0.06
"""Share of a GPU's memory that is not sold."""

_SIDE = 512


def cpu_name() -> str:
    """Return the name of the CPU's model."""
    facts = CPU_FACTS.read_text() if CPU_FACTS.is_file() else ""
    found = re.search(r"^model name\s*:\s*(.+)$", facts, re.MULTILINE)
    return found[1].strip() if found else platform.processor() or platform.machine()


def is_intel() -> bool:
    """Return whether the CPU is one of Intel's."""
    facts = CPU_FACTS.read_text() if CPU_FACTS.is_file() else ""
    return re.search(r"^vendor_id\s*:\s*GenuineIntel$", facts, re.MULTILINE) is not None


def training_libraries() -> dict[str, str]:
    """Return the versions of the libraries that may change the bits of a result."""
    return {name: version(name) for name in LIBRARIES}


def library_versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that training depends on."""
    return {"python": platform.python_version()} | training_libraries()


def device_name(device: "torch.device") -> str:
    """Return the name of a GPU, or of the CPU's model."""
    if device.type == "cuda":
        import torch

        return torch.cuda.get_device_name(device)
    return cpu_name()


def usable_bytes(device: "torch.device", base_bytes: int) -> int:
    """Return the memory that the base, already on the device, and its tasks can share.

    What the process itself or others hold there is subtracted: on a GPU the driver's context, on a
    CPU Python and its libraries. On a GPU a reserve is subtracted too: what its allocator cannot
    hand out, being in pieces, and what libraries take beside it.
    """
    if device.type == "cuda":
        import torch

        free, total = torch.cuda.mem_get_info(device)
        reserve = int(GPU_RESERVE * total)
        return max(0, free + torch.cuda.memory_reserved(device) - reserve)
    page = os.sysconf("SC_PAGE_SIZE")
    total = page * os.sysconf("SC_PHYS_PAGES")
    limit = CGROUP_LIMIT.read_text().strip() if CGROUP_LIMIT.is_file() else "max"
    if limit.isdecimal():
        total = min(total, int(limit))
    resident = page * int(OWN_PAGES.read_text().split()[1]) if OWN_PAGES.is_file() else 0
    return total - max(0, resident - base_bytes)


def try_device(device: "torch.device") -> dict[str, Any]:
    """Return the memory of a device, and whether it computes."""
    import torch

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
    """Try all CUDA devices."""
    import torch

    count = torch.cuda.device_count()
    print(json.dumps([try_device(torch.device("cuda", index)) for index in range(count)]))


if __name__ == "__main__":
    main()
