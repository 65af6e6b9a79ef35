"""What the documentation of the simulator shows is what happens.

Python blocks are doctests, in one namespace a page. In console blocks a line that starts with `$ `
is run by bash, and what follows is what it says; a line of `...` stands for any lines.
"""

import doctest
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = (
    "docs/explanation/auction.md",
    "docs/explanation/edge.md",
    "docs/explanation/spot.md",
    "docs/explanation/timeshare.md",
    "docs/how-to/lose-a-node.md",
    "docs/how-to/make-a-workload.md",
    "docs/how-to/rent-by-deadline.md",
    "docs/how-to/run-without-an-end.md",
    "docs/how-to/simulate-a-market.md",
    "docs/reference/instance-files.md",
    "docs/reference/spot-files.md",
    "docs/reference/streams.md",
    "docs/reference/workloads.md",
)
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_do_what_it_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    blocks = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    assert blocks
    for kind, text in blocks:
        if kind == "python":
            run_python(text, names, page)
        else:
            run_console(text)


def run_python(text: str, names: dict[str, object], page: str) -> None:
    said: list[str] = []
    test = doctest.DocTestParser().get_doctest(text, names, page, page, 0)
    assert test.examples
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    runner.run(test, out=said.append, clear_globs=False)
    names.update(test.globs)
    assert runner.failures == 0, "".join(said)


def run_console(text: str) -> None:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "120",
    }
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        done = subprocess.run(
            ["bash", "-c", command],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        matches = doctest.OutputChecker().check_output(expected, done.stdout, OPTIONS)
        assert matches, f"{command}\nexpected:\n{expected}\nsaid:\n{done.stdout}"
