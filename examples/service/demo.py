"""The first market as a service: started, bid in, watched, and stopped again.

    python examples/service/demo.py [FOLDER]

Each command is shown as one would type it. The service keeps what it has in FOLDER (out/demo).
"""

import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
MARKET = HERE.parent / "first-market" / "market.toml"
AUCTUNE = [sys.executable, "-m", "auctune"]
# Building the base, measuring the device and compiling take a while on a machine that is busy.
OPEN_SECONDS = 600
STOP_SECONDS = 30
# Of a command that worked, some of whose bids were rejected.
GOOD = (0, 3)
SENTENCE = "Weather report for Lisbon: clear, 9 degrees.\nAdvice:"


def main() -> int:
    """Run the demo; its exit code."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "out/demo")
    if (folder / "auctune.db").exists():
        shutil.rmtree(folder)
    config = HERE / "auctune.toml"
    options = ["serve", "--config", str(config), "--data", str(folder), "--port", "0"]
    show(options, "&")
    service = subprocess.Popen([*AUCTUNE, *options])
    try:
        if not is_open(service, folder):
            return 1
        code = bid(folder)
    finally:
        say("stop the service")
        service.terminate()
        service.wait(STOP_SECONDS)
    return code


def bid(folder: Path) -> int:
    """What users and the operator do; an exit code."""
    data = ["--data", str(folder)]
    code = run(["submit", "--market", str(MARKET), "--watch", *data])
    code = code or run(["jobs", *data])
    return code or run(["ledger", *data, "--limit", "5"])


def is_open(service: "subprocess.Popen[bytes]", folder: Path) -> bool:
    """Wait until the service answers; whether it does."""
    end = time.monotonic() + OPEN_SECONDS
    while service.poll() is None and time.monotonic() < end:
        if (folder / "url").exists():
            return True
        time.sleep(0.2)
    return False


def run(arguments: list[str]) -> int:
    """Show a command and run it; 0 if it worked."""
    show(arguments)
    code = subprocess.run([*AUCTUNE, *arguments], check=False).returncode
    return 0 if code in GOOD else code


def show(arguments: list[str], behind: str = "") -> None:
    """A command as one would type it."""
    shown = [relative(argument) for argument in arguments]
    print(f"\n$ auctune {shlex.join(shown)} {behind}".rstrip(), flush=True)


def relative(argument: str) -> str:
    """A path from here, where it is one below."""
    path = Path(argument)
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else argument


def say(text: str) -> None:
    """A remark."""
    print(f"\n# {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
