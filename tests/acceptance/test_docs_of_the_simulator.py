"""What the documentation of the simulator shows is what happens.

Python blocks are doctests, in one namespace a page. In console blocks a line that starts with `$ `
is run, and what follows is its output; a line of `...` stands for any lines. Losses are left out:
the small base is trained where it is installed, and its weights depend on the processor.
"""

import doctest
import io
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from auctune.cli.app import main

pytestmark = pytest.mark.slow

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
    "docs/tutorial/first-rental.md",
)
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)
LOSS = re.compile(r"\bloss \d\.\d+")
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_do_what_it_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    names: dict[str, object] = {}
    blocks = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    assert blocks
    for kind, text in blocks:
        if kind == "python":
            run_python(text, names, page)
        else:
            run_console(text, monkeypatch)


def run_python(text: str, names: dict[str, object], page: str) -> None:
    shown: list[str] = []
    test = doctest.DocTestParser().get_doctest(text, names, page, page, 0)
    assert test.examples
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    runner.run(test, out=shown.append, clear_globs=False)
    names.update(test.globs)
    assert runner.failures == 0, "".join(shown)


def run_console(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        shown = (
            run_auctune(command, monkeypatch) if command.startswith("auctune ") else bash(command)
        )
        expected, shown = (LOSS.sub("loss (any)", text) for text in (expected, shown))
        matches = doctest.OutputChecker().check_output(expected, shown, OPTIONS)
        assert matches, f"{command}\nexpected:\n{expected}\nshown:\n{shown}"


def run_auctune(command: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run it in this process, which has imported all that it needs."""
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    shown = io.StringIO()
    with redirect_stdout(shown), redirect_stderr(shown), pytest.raises(SystemExit):
        main()
    return shown.getvalue()


def bash(command: str) -> str:
    return subprocess.run(
        ["bash", "-c", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    ).stdout
