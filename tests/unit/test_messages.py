"""The texts that users read, in one file: it is read as a whole whenever it changes."""

from difflib import unified_diff

import pytest

from support.messages import LISTED, UPDATE, collected


@pytest.mark.slow
def test_all_texts_for_users_are_listed() -> None:
    diff = unified_diff(
        LISTED.read_text().splitlines(), collected().splitlines(), "listed", "found", lineterm=""
    )
    changes = "\n".join(diff)
    assert not changes, f"{changes}\n\nread the new texts as a user would, then: {UPDATE}"


@pytest.mark.slow
def test_errors_are_listed_as_sentences_and_templates_without_their_expressions() -> None:
    listed = collected().splitlines()
    assert "  {…}: already exists; expected the name of a new file" in listed
    assert "  auctune serves at {…}" in listed
    assert not any("SELECT" in line for line in listed)
