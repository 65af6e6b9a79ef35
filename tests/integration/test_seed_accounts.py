"""The first users and keys: added once, and the operator's to change from then on."""

import asyncio
from decimal import Decimal
from pathlib import Path

import pytest

from auctune.service.accounts.registry import AccountRegistry, Role, hash_key
from auctune.service.config.models import KeyConfig, UserConfig
from auctune.service.server import FIRST_KEY, ensure_operator_key, seed_accounts
from auctune.service.storage import Committer, Store
from support.serving import make_file, serving

pytest_plugins = ["support.store_fixtures"]

KEY = "k" * 40


def test_a_key_of_the_settings_is_good_from_the_start_and_stays_revoked(tmp_path: Path) -> None:
    users = [UserConfig(name="ada", budget=Decimal("5"), budget_days=1.0), UserConfig(name="root")]
    (tmp_path / "root.key").write_text("r" * 40)
    keys = [
        KeyConfig(user="ada", sha256=hash_key(KEY)),
        KeyConfig(user="root", role="operator", secret_file=str(tmp_path / "root.key")),
    ]
    file = make_file().model_copy(update={"users": users, "keys": keys})
    with serving(tmp_path / "data", file) as served:
        served.run(lambda: seed_accounts(served.service, file))
        (known,) = [one for one in served.service.accounts.all_keys() if one.user == "ada"]
        with served.http(KEY) as ada, served.http("r" * 40) as root:
            assert ada.get("/v1/ledger").json()["budget_remaining"] == "5.0000"
            assert ada.get("/v1/users").status_code == 403
            assert root.get("/v1/users").status_code == 200
            assert root.delete(f"/v1/keys/{known.id}").status_code == 200
            root.post("/v1/users", json={"id": "ada", "budget": None}).raise_for_status()
    with serving(tmp_path / "data", file) as served:
        served.run(lambda: seed_accounts(served.service, file))
        with served.http(KEY) as client:
            assert client.get("/v1/ledger").status_code == 401
        assert len(served.service.accounts.all_keys()) == 4
        account = served.service.accounts.user("ada")
        assert account is not None
        assert account.budget is None


async def begin(store: Store, committer: Committer, data: Path) -> str | None:
    return await ensure_operator_key(AccountRegistry(store.reader, committer), data)


def test_an_operator_gets_in_however_often_the_first_start_breaks_off(
    store: Store, committer: Committer, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    (data / FIRST_KEY).mkdir(parents=True)
    with pytest.raises(OSError, match=FIRST_KEY):
        asyncio.run(begin(store, committer, data))
    (data / FIRST_KEY).rmdir()

    made = asyncio.run(begin(store, committer, data))
    assert made is not None
    path = data / FIRST_KEY
    assert path.read_text().strip() == made
    assert path.stat().st_mode & 0o777 == 0o600
    who = AccountRegistry(store.reader, committer).authenticate(made)
    assert who is not None
    assert (who.user, who.role) == ("operator", Role.OPERATOR)
    assert asyncio.run(begin(store, committer, data)) is None


def test_keys_of_users_alone_do_not_lock_the_operator_out(
    store: Store, committer: Committer, tmp_path: Path
) -> None:
    async def begin_after_users() -> str | None:
        directory = AccountRegistry(store.reader, committer)
        await directory.put_user("ada", None, None)
        await directory.add_key("ada", Role.USER, "")
        return await begin(store, committer, tmp_path)

    assert asyncio.run(begin_after_users()) is not None
