"""A job of a real service starts from an earlier one's model, and is killed: nothing is lost."""

import io
import zipfile
from pathlib import Path

import openai
import pytest
import torch
from openai.types.fine_tuning import FineTuningJob
from safetensors.torch import load

from auctune.train.adapter_files import read_start
from auctune.train.base import Base
from auctune.train.job import LoraJob
from auctune.train.trainer import MultiLoraTrainer
from support.one_job import beyond, rows_of_job
from support.processes import kill
from support.service_process import ServiceProcess, rows_of, running, write_service

pytest_plugins = ["support.tiny_bases"]
pytestmark = pytest.mark.slow

LORA = {"rank": 4, "alpha": 12, "target_modules": ["c_attn"], "learning_rate": 0.01}
SETTINGS = {"epochs": 3, "batch_size": 4, "learning_rate": 0.01, "seed": 7}


def submit(service: ServiceProcess, model: str, file: str, **lora: object) -> FineTuningJob:
    client = openai.OpenAI(base_url=f"{service.url}/v1", api_key=service.key)
    with client:
        return client.fine_tuning.jobs.create(
            model=model,
            training_file=file,
            hyperparameters={"n_epochs": 3, "batch_size": 4},
            seed=7,
            suffix="weather",
            extra_body={"market": {"bid": "50", "deadline": "+280s", "lora": lora}},
        )


def result(service: ServiceProcess, job: str, place: Path) -> str:
    """The model of a job, whose archive is then at `place`."""
    found = service.wait_for_job(job, lambda one: one["fine_tuned_model"] is not None)
    place.write_bytes(service.download(found["result_files"][-1]))
    model: str = found["fine_tuned_model"]
    return model


def weights(archive: Path) -> dict[str, torch.Tensor]:
    packed = zipfile.ZipFile(io.BytesIO(archive.read_bytes()))
    name = next(name for name in packed.namelist() if name.endswith(".safetensors"))
    return load(packed.read(name))


def test_a_job_from_a_model_is_killed_and_ends_as_the_trainer_does(
    tiny_base: Base, tmp_path: Path
) -> None:
    config = write_service(
        tmp_path, tiny_base.architecture, slot_seconds=2.0, tokens_per_second=1200, slots=150
    )
    rows = rows_of(40)
    (tmp_path / "rows.jsonl").write_bytes(rows)
    with running(config, tmp_path / "data") as service:
        file = service.upload(rows)
        first = submit(service, "tiny", file, **LORA)
        model = result(service, first.id, tmp_path / "first.zip")
        _, listed = service.ask("GET", f"/v1/fine_tuning/jobs/{first.id}/checkpoints")
        last, middle, _ = listed["data"]
        assert [one["step_number"] for one in listed["data"]] == [30, 20, 10]
        (tmp_path / "last.zip").write_bytes(service.download(last["result_file"]))
        (tmp_path / "middle.zip").write_bytes(service.download(middle["result_file"]))
        assert middle["fine_tuned_model_checkpoint"] == f"{model}:ckpt-step-20"
        job = submit(service, middle["fine_tuned_model_checkpoint"], file, learning_rate=0.01)
        seen = service.wait_for_job(job.id, beyond(0))
        # Before and after its first checkpoint it is the same.
        kill(service.first_worker())
        service.kill()
        service.start()
        assert rows_of_job(service.job(job.id)) >= rows_of_job(seen)
        assert result(service, job.id, tmp_path / "second.zip") == (
            f"ft:tiny:weather:{job.id.removeprefix('ftjob-')}"
        )
        assert service.stop() == 0
    # The last epoch's adapter is the result.
    ended, kept = weights(tmp_path / "first.zip"), weights(tmp_path / "last.zip")
    assert all(torch.equal(ended[name], kept[name]) for name in ended)
    start, before = read_start(tmp_path / "middle.zip", "start_from")
    assert (start.rank, start.alpha, start.base_digest) == (4, 12.0, tiny_base.digest)
    trainer = MultiLoraTrainer(tiny_base, mode="exact")
    lora_job = LoraJob(
        "job",
        tmp_path / "rows.jsonl",
        start_from=tmp_path / "middle.zip",
        start_digest=start.digest,
        **start.settings({}),
        **SETTINGS,  # type: ignore[arg-type]
    )
    trainer.load(lora_job, tmp_path / "work")
    trainer.train({"job": 10**6}, lambda progress: None)
    for name, trained in trainer.weights("job").items():
        in_service = weights(tmp_path / "second.zip")[f"base_model.model.{name}"]
        assert torch.allclose(in_service, trained, atol=1e-5)
        assert not torch.allclose(in_service, torch.from_numpy(before[name]), atol=1e-3)
