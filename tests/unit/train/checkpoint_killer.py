"""Kills writers of checkpoints with SIGKILL and looks at what they leave behind.

A process of its own, run as `checkpoint_killer.py FOLDER`: it forks its writers, which a test
process with threads must not do. Prints one JSON object: for each way to kill them, what was
found after each writer.
"""

import itertools
import json
import os
import random
import select
import signal
import sys
from pathlib import Path
from typing import Any

import torch

from auctune.train.checkpoint import Checkpoint, load_latest, save_checkpoint

SIZE = 50_000


def make(number: int) -> Checkpoint:
    return Checkpoint({"weights": torch.full((SIZE,), float(number))}, {"number": number})


def look(folder: Path) -> dict[str, Any]:
    latest = load_latest(folder)
    assert latest is not None
    checkpoint, number, damaged = latest
    assert checkpoint.state == {"number": number}
    assert torch.equal(checkpoint.tensors["weights"], make(number).tensors["weights"])
    return {"number": number, "damaged": damaged}


def kill_at_event(count: int) -> None:
    """Let this process die at the `count`-th file operation that Python announces from now on."""
    left = itertools.count(count, -1)

    def hook(event: str, _: object) -> None:
        if event.split(".")[0] in ("open", "os", "shutil", "pathlib") and next(left) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def kill_at_each_event(folder: Path, keep: int) -> list[dict[str, Any]]:
    """One writer for each file operation of a save, killed there; until one is not killed."""
    rounds: list[dict[str, Any]] = []
    for count in itertools.count():
        place = folder / str(count)
        for number in (1, 2, 3):
            save_checkpoint(place, number, make(number), keep)
        replaced = count % 2 + 3  # the newest anew, or the next
        pid = os.fork()
        if pid == 0:
            kill_at_event(count)
            save_checkpoint(place, replaced, make(replaced), keep)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        killed = os.WIFSIGNALED(status)
        seen = look(place)
        save_checkpoint(place, 5, make(5), keep)
        rounds.append({"killed": killed, **seen, "afterwards": look(place)["number"]})
        if not killed and count % 2:
            break
    return rounds


def kill_at_random(folder: Path, num_rounds: int) -> list[dict[str, Any]]:
    """Writers in one folder, each going on where the one before was killed."""
    source = random.Random(0)
    rounds: list[dict[str, Any]] = []
    done = 0
    for _ in range(num_rounds):
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            for number in itertools.count(done + 1):
                save_checkpoint(folder, number, make(number))
                os.write(writer, number.to_bytes(4, "big"))
        os.close(writer)
        announced = int.from_bytes(os.read(reader, 4), "big")
        # Waits for nothing: no event comes, and the time runs out.
        select.select([], [], [], source.uniform(0, 0.02))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        while more := os.read(reader, 4):
            announced = int.from_bytes(more, "big")
        os.close(reader)
        seen = look(folder)
        done = seen["number"]
        rounds.append({"announced": announced, **seen})
    return rounds


if __name__ == "__main__":
    torch.set_num_threads(1)
    place = Path(sys.argv[1])
    each = {f"each-{keep}": kill_at_each_event(place / f"{keep}", keep) for keep in (1, 2)}
    print(json.dumps({**each, "random": kill_at_random(place / "random", num_rounds=40)}))
