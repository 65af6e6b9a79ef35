import queue
from pathlib import Path

import pytest

from auctune.run.child import Message
from auctune.run.executor import NodeProcess, NodeSettings
from auctune.run.executor.node_process import Inbox, into

pytest_plugins = ["support.tiny_bases"]


def heard(inbox: Inbox) -> tuple[str, Message | None]:
    """The next message that says more than that the node is alive."""
    while True:
        node, message = inbox.get()
        if message is None or message["kind"] != "alive":
            return node, message


def test_a_node_that_cannot_load_its_base_says_so_and_ends(tmp_path: Path) -> None:
    inbox: Inbox = queue.Queue()
    process = NodeProcess(NodeSettings("./none", str(tmp_path)), into(inbox, "alpha"))

    node, message = heard(inbox)
    assert node == "alpha"
    assert message is not None
    assert (message["kind"], message["place"]) == ("failed", "base './none'")
    assert heard(inbox) == ("alpha", None)
    # Orders to one that is gone are lost, as the inbox has said.
    process.train(0, [])
    process.stop()


def test_a_node_on_a_numbered_gpu_is_told_the_only_one_that_it_sees(tmp_path: Path) -> None:
    told = (
        "import json, os, sys\n"
        "device, gpu = json.loads(sys.argv[1])['device'], os.environ['CUDA_VISIBLE_DEVICES']\n"
        "print(json.dumps({'kind': 'told', 'device': device, 'gpu': gpu}))"
    )
    inbox: Inbox = queue.Queue()
    settings = NodeSettings("tiny", str(tmp_path), device="cuda:3")
    process = NodeProcess(settings, into(inbox, "alpha"), program=("-c", told))
    assert heard(inbox) == ("alpha", {"kind": "told", "device": "cuda", "gpu": "3"})
    process.stop()


def test_a_node_that_crashes_leaves_its_last_line_and_its_log(tmp_path: Path) -> None:
    inbox: Inbox = queue.Queue()
    log = tmp_path / "alpha.log"
    log.write_text("of an earlier process\n")

    process = NodeProcess(
        NodeSettings("tiny", str(tmp_path), threads=-1), into(inbox, "alpha"), log=log
    )

    assert heard(inbox) == ("alpha", None)
    assert process.ending() == "RuntimeError: set_num_threads expects a positive integer"
    process.stop()
    assert log.read_text().startswith("of an earlier process\nTraceback")


@pytest.mark.slow
def test_a_node_ignores_files_of_the_current_folder_and_stops_when_asked(
    tiny_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "queue.py").write_text("raise SystemExit('the wrong module')")
    monkeypatch.chdir(tmp_path)
    inbox: Inbox = queue.Queue()
    process = NodeProcess(NodeSettings("tiny", str(tiny_cache)), into(inbox, "alpha"))

    _, message = heard(inbox)

    assert message is not None
    assert message["kind"] == "ready"
    process.stop()
    assert heard(inbox) == ("alpha", None)
