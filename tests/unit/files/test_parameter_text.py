import pytest

from auctune.domain import InputError
from auctune.files.parameter_text import parse_label


def test_a_label_is_a_name_and_its_settings() -> None:
    assert parse_label("ahap", "--policy", "policy") == ("ahap", {})
    assert parse_label("ahap:window=5:sigma=0.6", "--policy", "policy") == (
        "ahap",
        {"window": "5", "sigma": "0.6"},
    )
    assert parse_label("csv:path=a=b", "--from", "source") == ("csv", {"path": "a=b"})


@pytest.mark.parametrize(
    ("label", "says"),
    [
        ("", "--policy: '' has no name; expected POLICY[:KEY=VALUE...]"),
        (":a=1", "has no name"),
        ("ahap:window", "'window' in 'ahap:window'"),
        ("ahap:=5", "'=5' in 'ahap:=5'"),
        ("ahap:", "'' in 'ahap:'"),
        ("ahap:sigma=1:sigma=2", "'sigma' is repeated"),
    ],
)
def test_what_is_no_label_is_refused(label: str, says: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_label(label, "--policy", "policy")
    assert says in str(refused.value)
