"""Users and keys of the settings: added once, and the operator's to change from then on."""

from decimal import Decimal
from pathlib import Path

from auctune.service.access.key import hash_key
from auctune.service.first_keys import add_first_keys
from auctune.service.settings.access_entries import KeyEntry, UserEntry
from support.serving import make_file, serving

KEY = "k" * 40


def test_a_key_of_the_settings_is_good_from_the_start_and_stays_revoked(tmp_path: Path) -> None:
    users = [UserEntry(name="ada", budget=Decimal("5"), budget_days=1.0), UserEntry(name="root")]
    (tmp_path / "root.key").write_text("r" * 40)
    keys = [
        KeyEntry(user="ada", sha256=hash_key(KEY)),
        KeyEntry(user="root", role="operator", secret_file=str(tmp_path / "root.key")),
    ]
    file = make_file().model_copy(update={"users": users, "keys": keys})
    with serving(tmp_path / "data", file) as served:
        served.run(lambda: add_first_keys(served.market, file))
        (known,) = [one for one in served.market.directory.all_keys() if one.user == "ada"]
        with served.http(KEY) as ada, served.http("r" * 40) as root:
            assert ada.get("/v1/ledger").json()["budget_left"] == "5.0000"
            assert ada.get("/v1/users").status_code == 403
            assert root.get("/v1/users").status_code == 200
            assert root.delete(f"/v1/keys/{known.id}").status_code == 200
            root.post("/v1/users", json={"id": "ada", "budget": None}).raise_for_status()
    with serving(tmp_path / "data", file) as served:
        served.run(lambda: add_first_keys(served.market, file))
        with served.http(KEY) as client:
            assert client.get("/v1/ledger").status_code == 401
        assert len(served.market.directory.all_keys()) == 4
        account = served.market.directory.user("ada")
        assert account is not None
        assert account.budget is None
