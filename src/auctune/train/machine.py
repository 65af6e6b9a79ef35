"""What can be known of this machine and its libraries without loading torch."""

import platform
import re
from importlib.metadata import version
from pathlib import Path

LIBRARIES = ("torch", "transformers", "peft")
CPU_FACTS = Path("/proc/cpuinfo")


def cpu_name() -> str:
    """The name of the CPU's model."""
    facts = CPU_FACTS.read_text() if CPU_FACTS.is_file() else ""
    found = re.search(r"^model name\s*:\s*(.+)$", facts, re.MULTILINE)
    return found[1].strip() if found else platform.processor() or platform.machine()


def library_versions() -> dict[str, str]:
    """Versions of Python and of the libraries that decide what training computes, and how fast."""
    return {"python": platform.python_version()} | {name: version(name) for name in LIBRARIES}
