"""Commands against a server that answers anything but what the service does."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.scripted_server import ScriptedServer
from support.typing_as import Run

JOB = {"id": "ftjob-a", "status": "running", "market": {}}


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    found = ScriptedServer()
    yield found
    found.stop()


@pytest.mark.parametrize(
    ("command", "body"),
    [
        (["webhooks", "list"], {}),
        (["webhooks", "list"], {"data": [{"id": 1}]}),
        (["webhooks", "list"], {"data": 5}),
        (["webhooks", "list"], {"data": [{"id": "a", "url": "b", "created_at": "x"}]}),
        (["jobs"], {"data": [JOB], "has_more": False}),
        (["jobs"], {"data": ["job"], "has_more": False}),
        (["files", "list"], {"data": [{"id": None}], "has_more": False}),
        (["zones", "list"], {"data": [[]]}),
        (["users", "list"], {"data": [{"id": "a"}]}),
        (["keys", "list"], {"data": {"id": "a"}}),
        (["explain", "ftjob-a"], {"decision": 5}),
        (["ledger"], {"balance": "much"}),
        (["jobs"], []),
    ],
)
def test_a_record_of_another_form_is_one_clear_error(
    server: ScriptedServer, auctune: Run, command: list[str], body: Any
) -> None:
    for _ in range(3):
        server.will_answer(200, body)
    code, _, errors = auctune(*command, "--url", server.url, "--api-key", "sk-key")
    assert (code, len(errors)) == (1, 1), errors
    assert server.url in errors[0]
    assert "auctune service" in errors[0]


def test_control_codes_of_a_server_are_not_printed(server: ScriptedServer, auctune: Run) -> None:
    hook = {"id": "wh-1", "url": "https://a/\x1b]0;owned\x07\x9b2J", "created_at": 1_800_000_000}
    for more in ([], ["--json"]):
        server.will_answer(200, {"data": [hook]})
        arguments = ["webhooks", "list", "--url", server.url, "--api-key", "sk-key", *more]
        code, shown, _ = auctune(*arguments)
        assert code == 0
        assert "wh-1" in shown
        assert not any(one in shown for one in "\x1b\x07\x9b")
