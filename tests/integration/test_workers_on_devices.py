"""A worker of each kind, started as the product starts it, on a CPU and on a GPU; nothing replaced.

`pytest -m gpu` runs those on `cuda:0`. What they compute is compared elsewhere; here each loads a
base on its device and does one piece of its work.
"""

import asyncio
import queue
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from auctune.domain import InputError
from auctune.domain.generation import AnswerEnd, GenerationRequest, SamplingParams
from auctune.engine.data import DataClient
from auctune.engine.elastic.errors import read_failure
from auctune.engine.elastic.gradient_worker import dump_rows, gradient_worker
from auctune.engine.elastic.trainer import read_facts
from auctune.engine.generation import Generator, GeneratorSettings
from auctune.engine.inference import evaluate, sample
from auctune.engine.messages.base import Failed
from auctune.engine.messages.elastic import Compute, Export, InitializeAdapter, LoadChunks
from auctune.engine.messages.node import (
    Measure,
    Measured,
    NodeReady,
    TaskQuota,
    Trained,
    TrainSlotRequest,
)
from auctune.engine.messages.pool import (
    ExportJob,
    LoadJob,
    PoolReply,
    PoolRequest,
    ReleaseJob,
    StartPool,
    TimeSlice,
    TrainQuantum,
)
from auctune.engine.pool.device import PoolDevice
from auctune.engine.pool.events import OpenPoolDirectory
from auctune.engine.runtime.local import start_node, start_worker
from auctune.engine.runtime.nodes import NodeError, NodeSettings
from auctune.engine.runtime.requests import RequestWorker
from auctune.train.data_parallel.batches import ChunkRows, RowRange
from auctune.train.job import LoraJob
from support.edge_runs import job_chunks, make_job, make_training
from support.peft_adapters import save_adapter
from support.small_bases import build_base, write_rows
from support.spot_runs import make_site

pytestmark = pytest.mark.slow

SECONDS = 120.0
M = TypeVar("M")


@pytest.fixture(params=["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("base")
    build_base(folder, "llama")
    return str(folder)


def until(inbox: "queue.SimpleQueue[Any]", kind: type[M]) -> M:
    """The next message of a class; the worker neither fails nor ends before."""
    while not isinstance(message := inbox.get(timeout=SECONDS), kind):
        assert message is not None, "the worker has ended"
        assert not isinstance(message, Failed), message
    return message


def test_a_node_trains_a_slot_and_exports(device: str, base: str, tmp_path: Path) -> None:
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    node = start_node(NodeSettings(base, str(tmp_path), device=device), inbox.put)
    job = LoraJob("a", write_rows(tmp_path / "a.jsonl", 6, 1), rank=2, batch_size=3)
    quota = TaskQuota(job, tmp_path / "work", 0, 6, tmp_path / "adapter")
    until(inbox, NodeReady)
    node.send(TrainSlotRequest(0, (quota,)))
    trained = until(inbox, Trained)
    assert trained.results["a"].exported, trained
    node.stop()


def test_a_node_measures_its_device(device: str, base: str, tmp_path: Path) -> None:
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    settings = NodeSettings(base, str(tmp_path), device=device, measure_seconds=2.0)
    node = start_node(settings, inbox.put)
    node.send(Measure())
    measured = until(inbox, Measured)
    assert f'"device": "{device[:4].rstrip(":")}"' in measured.profile
    node.stop()


def test_a_pool_trains_a_job(device: str, base: str, tmp_path: Path) -> None:
    data = write_rows(tmp_path / "a.jsonl", 6, 1)
    settings = NodeSettings(base, str(tmp_path), device=device, mode="exact")
    worker = RequestWorker(
        partial(start_node, settings), lambda failed: failed.error.to_error(NodeError)
    )

    def send(request: PoolRequest) -> PoolReply:
        reply: PoolReply = worker.request(request).result(SECONDS)
        return reply

    pool = PoolDevice(send)
    pool.start(StartPool(str(tmp_path / "pool"), [], None, 60.0, 0.0))
    fields = {"data": str(data), "rank": 2, "batch_size": 3}
    assert pool.load(LoadJob("a", fields)).memory_bytes > 0
    with pytest.raises(InputError, match="batch_size"):
        pool.load(LoadJob("b", fields | {"batch_size": 0}))
    trained = pool.train(TrainQuantum(0, None, [TimeSlice("a", 2, 60.0, best=(0.0, 100.0))]))
    assert trained["a"].batches == 2
    assert 0.0 < trained["a"].loss < 100.0
    assert pool.memory.resident == ("a",)
    assert pool.export(ExportJob("a", best=2))
    folder = OpenPoolDirectory(tmp_path / "pool")
    assert (folder.result("a") / "adapter" / "adapter_model.safetensors").is_file()
    pool.release(ReleaseJob("a"))
    assert not [*folder.best.iterdir()]
    worker.kill()


@pytest.mark.parametrize("warm", [False, True])
def test_a_spot_worker_computes_gradients(device: str, warm: bool, tmp_path: Path) -> None:
    settings = replace(make_site(tmp_path).settings, device=device)
    spec = gradient_worker(settings, tmp_path / "log", fork=warm)
    worker = RequestWorker(partial(start_worker, spec), read_failure)
    facts = read_facts(worker)
    assert facts.counts.num_rows == 48
    request = Compute(parts=[RowRange(0, 2)], arrays=[facts.first_weights])
    assert worker.request(request).result(SECONDS).losses[0] > 0
    worker.kill()


def test_an_edge_worker_computes_gradients_and_exports(device: str, tmp_path: Path) -> None:
    job = make_job(1)
    training = make_training(tmp_path, job)
    spec = gradient_worker(training.worker_settings(device), tmp_path / "log")
    worker = RequestWorker(partial(start_worker, spec), read_failure)

    def ask(request: object) -> Any:
        return worker.request(request).result(SECONDS)

    chunk = dump_rows(job_chunks(job, training)[0])
    loaded = ask(LoadChunks(chunks=[0], has_validation=False, arrays=[chunk]))
    ((number, num_rows),) = loaded.sizes.items()
    (weights,) = ask(InitializeAdapter()).arrays
    computed = ask(Compute(parts=[ChunkRows(number, 0, 0, num_rows)], arrays=[weights]))
    assert computed.losses[0] > 0
    assert "adapter_model.safetensors" in ask(Export(arrays=[weights])).names
    worker.kill()


def test_the_process_of_answers_answers(device: str, base: str, tmp_path: Path) -> None:
    settings = GeneratorSettings(
        base=base, cache=tmp_path, device=device, threads=1, niceness=10, max_batch=4
    )
    generator = Generator(settings, idle_seconds=60.0, log=tmp_path / "log")
    adapter = save_adapter(tmp_path / "adapter")
    request = GenerationRequest(
        prompt="word1 word2", params=SamplingParams(max_tokens=4, temperature=0.0), adapter=adapter
    )

    async def run() -> None:
        pieces = [piece async for piece in generator.generate(request)]
        assert isinstance(pieces[-1], AnswerEnd)
        await generator.close()

    asyncio.run(run())


def test_commands_sample_and_evaluate(device: str, base: str, tmp_path: Path) -> None:
    adapter = save_adapter(tmp_path / "adapter")
    settings = GeneratorSettings(base=base, cache=tmp_path, device=device, checks_base=False)
    assert list(sample(settings, GenerationRequest(prompt="word1", adapter=adapter)))
    rows = write_rows(tmp_path / "a.jsonl", 3, 1)
    assert evaluate(settings, adapter, rows).adapter.loss > 0


def test_the_data_process_works_beside_a_gpu(base: str, tmp_path: Path) -> None:
    client = DataClient(tmp_path)
    assert client.prepare(base).result(SECONDS)
    client.close()
