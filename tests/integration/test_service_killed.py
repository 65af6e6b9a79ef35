"""kill -9 of a node's process, of the service, of both: a job comes out as if nothing had been."""

from pathlib import Path

import pytest

from auctune.client.endpoint import STARTING_FILE
from auctune.train.base import Base
from support.executor_kinds import KINDS
from support.one_job import adapter, beyond, check_charged_once, metrics, rows_of_job, submit
from support.processes import kill
from support.service_process import rows_of, running, write_service

pytest_plugins = ["support.tiny_bases"]
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("executor", [pytest.param("local", marks=pytest.mark.smoke), *KINDS[1:]])
def test_a_killed_job_ends_as_an_undisturbed_one_and_is_charged_once(
    tiny_base: Base, tmp_path: Path, executor: str
) -> None:
    # So little is sold of a slot that the job takes several; a busy machine needs more of them.
    config = write_service(
        tmp_path,
        tiny_base.architecture,
        slot_seconds=2.0,
        tokens_per_second=1200,
        slots=150,
        executor=executor,
    )
    with running(config, tmp_path / "data") as service:
        # torch is left to children; and of how it opened nothing is said once it is open.
        mapped = Path(f"/proc/{service.pid}/maps").read_text()
        assert "llvmlite" in mapped
        assert "torch" not in mapped
        assert not (tmp_path / "data" / STARTING_FILE).exists()
        file = service.upload(rows_of(40))
        first = submit(service, file)
        undisturbed = adapter(service, first)
        job = submit(service, file)
        rows = 0
        for victim in ("worker", "service", "both"):
            seen = service.wait_for_job(job, beyond(rows))
            rows = rows_of_job(seen)
            if victim != "service":
                kill(service.first_worker())
            if victim != "worker":
                service.kill()
                service.start()
                assert rows_of_job(service.job(job)) >= rows
        assert adapter(service, job) == undisturbed
        steps = metrics(service, job)
        assert steps == metrics(service, first)
        assert [one["step"] for one in steps] == [str(step) for step in range(1, 31)]
        assert float(steps[-1]["train_loss"]) < float(steps[0]["train_loss"])
        assert all(0 <= float(one["train_mean_token_accuracy"]) <= 1 for one in steps)
        assert {one["valid_loss"] for one in steps} == {""}
        assert service.stop() == 0
    check_charged_once(tmp_path / "data", job)
