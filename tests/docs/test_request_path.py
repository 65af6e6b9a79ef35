"""The modules that one request crosses are those that the page names."""

import re
import threading
from pathlib import Path
from types import FrameType

import pytest

import auctune.service
from auctune.service import service
from support.serving import make_file, serving

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "service.md"
FOLDER = str(Path(auctune.service.__file__).parent)


def test_a_bid_crosses_the_modules_that_the_page_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What runs in the background from time to time is no part of a request.
    for seconds in ("_EXPIRY_SECONDS", "_BILLING_SECONDS"):
        monkeypatch.setattr(service, seconds, 3600.0)
    section = PAGE.read_text().split("## The modules of one request")[1].split("\n## ")[0]
    table = section[section.index("| --- ") :]
    named = re.findall(r"`([a-z_.]+)`", table)
    assert len(named) == len(set(named))
    assert modules_of_a_bid(tmp_path) == set(named)


def modules_of_a_bid(folder: Path) -> set[str]:
    """Return the modules of the service whose functions run for one of three admitted jobs.

    What a request leaves to be done may begin after its answer.
    """
    crossed: set[str] = set()
    is_traced = [False]

    def observe(frame: FrameType, event: str, _: object) -> None:
        path = frame.f_code.co_filename
        if event == "call" and is_traced[0] and path.startswith(FOLDER):
            crossed.add(path.removeprefix(FOLDER + "/").removesuffix(".py").replace("/", "."))

    threading.setprofile(observe)
    try:
        with serving(folder, make_file()) as served:
            key = served.key("ada")
            file = served.upload(key)
            served.client(key).files.wait_for_processing(file, poll_interval=0.05)
            terms = {"market": {"bid": "100", "deadline": "+20m"}}
            with served.http(key) as http:
                # Some work of the first one is done once: imports and caches.
                for traced in (False, True, True, True):
                    body = {"model": "tiny", "training_file": file, **terms}
                    is_traced[0] = traced
                    answer = http.post("/v1/fine_tuning/jobs", json=body)
                    is_traced[0] = False
                    assert answer.json()["market"]["decision"] == "admitted"
    finally:
        threading.setprofile(None)
    return crossed
