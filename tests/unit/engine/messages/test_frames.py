"""Each message of elastic, spot and edge workers comes out of its frame as it went in."""

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from math import inf, nan
from typing import Any, get_args

import numpy as np
import pytest

from auctune.domain.epoch_metrics import EpochMetrics
from auctune.engine.edge.edge_folder import SlotOutcome
from auctune.engine.edge.slot_run import RowProgress
from auctune.engine.messages import data, generation, node, ray
from auctune.engine.messages.base import Alive, ErrorRecord, Failed, Ready, Stop
from auctune.engine.messages.devices import (
    DEVICE_MESSAGES,
    DeviceLoaded,
    DeviceReply,
    DeviceRequest,
    JoinDevices,
)
from auctune.engine.messages.elastic import (
    GRADIENT_MESSAGES,
    REDUCER_MESSAGES,
    STORE_MESSAGES,
    AdapterInitialized,
    Added,
    ChunksLoaded,
    Compute,
    Computed,
    CountValidated,
    Export,
    Exported,
    FileLoaded,
    GradientReply,
    GradientRequest,
    GradientWorkerReady,
    InitializeAdapter,
    LoadChunks,
    LoadFile,
    ReadRows,
    Reduce,
    Reduced,
    ReducerReply,
    ReducerRequest,
    ReducerSaved,
    RowsRead,
    SaveReducer,
    StartReducer,
    StoreReply,
    Validate,
)
from auctune.engine.messages.sites import (
    SITES_MESSAGES,
    JobFailed,
    PrefetchSlot,
    PrepareSlot,
    SiteLost,
    SiteRecovered,
    SitesReady,
    SitesReply,
    SitesRequest,
    SlotDone,
    SlotEnded,
    SlotLost,
    SlotTrained,
    TrainSlot,
)
from auctune.engine.messages.spot import (
    SPOT_MESSAGES,
    BeginRun,
    CapReached,
    EventCommitted,
    JobReady,
    JobWarning,
    RunEvent,
    SpotReply,
    SpotRequest,
)
from auctune.engine.runtime.channel import decode, encode
from auctune.service.charts import messages as charts
from auctune.service.integrations import worker as integrations
from auctune.service.zones.auction.startup import CompilerReply
from auctune.train.checkpoint import Checkpoint
from auctune.train.data_parallel.batches import NO_GRADIENT, ChunkRows, Contribution, RowRange
from auctune.train.job import ReducerProgress
from auctune.train.multilora.device_group import (
    AdapterAdded,
    AddAdapter,
    PassesDone,
    ReduceGradients,
    RemoveAdapters,
    RowHeader,
    RunPasses,
)
from auctune.train.row_cursor import DataCounts
from support.edge_runs import make_request

WEIGHTS = np.array([0.5, -inf], np.float32)
CONTENT = np.frombuffer(b"odd\n", np.uint8)
TOKENS = np.array([3, -100], np.int64)
COUNTS = DataCounts(3, "digest", 1, 2, "other", 0.25)
CONTRIBUTIONS = [Contribution(WEIGHTS, nan, 1, 2, 3), Contribution(NO_GRADIENT, 0.1, 4, 5)]
CHECKPOINT = Checkpoint({"adapter": WEIGHTS, "none": NO_GRADIENT}, {"steps": 3, "loss": nan})
DIVERGED = ReducerProgress("failed", "astray", 2, 8, 99, [(1, nan, 0.5)])
EVENT = {"type": "slot_done", "losses": [[1, inf]], "text": None}
OUTCOME = SlotOutcome(
    before=0, steps=2, chunks=(1,), samples=4, tokens=9, losses=((1, 2, 4, nan, 0.5),),
    first_loss=None, loss=inf, validation_loss=None, validation_accuracy=0.5, seconds=1.0,
    workers_away=0, chunks_crossed=0, chunk_bytes=0, parameter_bytes=0,
)  # fmt: skip
ENDS = [Alive(), Failed(error=ErrorRecord("rows", "is odd", "even"))]

EXAMPLES = [
    (GradientRequest | Stop, GRADIENT_MESSAGES.requests, [
        LoadFile(), LoadChunks(chunks=[], has_validation=False, arrays=()),
        LoadChunks(chunks=[3], has_validation=True, arrays=(CONTENT, CONTENT[:0])),
        InitializeAdapter(), InitializeAdapter(arrays=(CONTENT,)), Stop(),
        Compute(parts=[RowRange(1, 3), ChunkRows(1, 2, 3, 4)], arrays=(WEIGHTS,)),
        Validate(first=0, count=2), Export(), Export(metrics=EpochMetrics(1, 2, nan, 0.5)),
    ]),
    (GradientReply, GRADIENT_MESSAGES.replies, [
        *ENDS, GradientWorkerReady(base_digest="digest"), FileLoaded(counts=COUNTS, notes=("a",)),
        ChunksLoaded(sizes={3: 4, 1: 2}, num_validation_rows=2),
        AdapterInitialized(shapes={"b": (1, 2), "a": ()}, arrays=()),
        Computed(), Computed().with_contributions(CONTRIBUTIONS),
        Exported(names=[], arrays=()), Exported(names=["a", "b"], arrays=(CONTENT, CONTENT[:0])),
    ]),
    (DeviceRequest, DEVICE_MESSAGES.requests, [
        JoinDevices(store="/tmp", number=1, num_devices=2), Stop(),
        AddAdapter(
            name="a", rank=4, alpha=0.5, dropout=0.1, use_rslora=True, shapes={"b": (1, 2)}
        ),
        RemoveAdapters(names=["a"]), ReduceGradients(adapters=["b", "a"]),
        RunPasses(verb="evaluate", adapters=[], counted=[], passes=[], arrays=(TOKENS[:0],) * 2),
        RunPasses(
            verb="log_probabilities", adapters=["a"], counted=["a"], arrays=(TOKENS, TOKENS),
            passes=[
                [RowHeader("a", -(2**63), 1, 0.1, 0.2, -inf, -1)],
                [RowHeader("b", 1, 1, 1.0, 0.0, 0.0, 0)],
            ],
        ),
    ]),
    (DeviceReply, DEVICE_MESSAGES.replies, [
        *ENDS, DeviceLoaded(base_digest="digest"), AdapterAdded(fits=False),
        PassesDone(), PassesDone(failed=1, arrays=(WEIGHTS,)),
    ]),
    (ReducerRequest | Stop, REDUCER_MESSAGES.requests, [
        StartReducer(base_digest="digest", num_parameters=2, total_rows=3, arrays=(WEIGHTS,)),
        StartReducer(
            base_digest="digest", num_parameters=2, counts=COUNTS, shapes={"a": (2,)}
        ).with_checkpoint(CHECKPOINT),
        Reduce(num_rows=[], is_last=True), SaveReducer(), Stop(),
        Reduce(num_rows=[1, 2], is_last=True).with_contributions(CONTRIBUTIONS),
        CountValidated(num_rows=[2], is_last=False).with_contributions(CONTRIBUTIONS[1:]),
    ]),
    (ReducerReply, REDUCER_MESSAGES.replies, [
        *ENDS, Ready(), Added(), Reduced(progress=DIVERGED, arrays=()),
        Reduced(
            progress=DIVERGED, points=[(1, 4, 50, nan, 0.25)], warnings=["old"], arrays=(WEIGHTS,)
        ),
        ReducerSaved(), ReducerSaved().with_checkpoint(CHECKPOINT),
    ]),
    (ReadRows | Stop, STORE_MESSAGES.requests, [
        ReadRows(
            site="a", source="/é.jsonl", num_chunks=2, seed=5, method="supervised", place="rows.a",
            sha256=None, arrays=(CONTENT,),
        ),
        Stop(),
    ]),
    (StoreReply, STORE_MESSAGES.replies, [
        *ENDS, Ready(), RowsRead(sha256="0", num_rows=0, sizes=[], arrays=()),
        RowsRead(sha256="0", num_rows=2, sizes=[3, 1], arrays=(CONTENT, CONTENT)),
    ]),
    (SpotRequest, SPOT_MESSAGES.requests, [
        BeginRun(events=[]), BeginRun(events=[EVENT, EVENT]), EventCommitted(is_open=False), Stop(),
    ]),
    (SpotReply, SPOT_MESSAGES.replies, [
        *ENDS, JobReady(), RunEvent(event=EVENT), JobWarning(text="two\nlines"),
        CapReached(rate=inf),
    ]),
    (SitesRequest, SITES_MESSAGES.requests, [
        TrainSlot(slot=3, open=["job"], requests=[make_request()]), Stop(),
        PrepareSlot(open=[], requests=[]), PrefetchSlot(requests=[make_request()]),
    ]),
    (SitesReply, SITES_MESSAGES.replies, [
        *ENDS, SitesReady(lost=[]), SlotDone(slot=3), SiteLost(site="a"), SiteRecovered(site="a"),
        SlotEnded(slot=3, end=SlotTrained("job", OUTCOME)),
        SlotEnded(slot=3, end=SlotLost("job", "late", failed=False, late=RowProgress(4, 0.5))),
        SlotEnded(slot=3, end=JobFailed("job", "why")),
    ]),
]  # fmt: skip


def comparable(value: Any) -> Any:
    """The value of which NaN equals NaN, and a sequence any other of the same values."""
    if is_dataclass(value):
        return type(value), {
            one.name: comparable(getattr(value, one.name)) for one in fields(value)
        }
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.tobytes()
    if isinstance(value, list | tuple):
        return [comparable(one) for one in value]
    if isinstance(value, Mapping):
        return [(key, comparable(one)) for key, one in value.items()]
    return "NaN" if value != value else value


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        pytest.param(messages, message, id=type(message).__name__)
        for _, messages, examples in EXAMPLES
        for message in examples
    ],
)
def test_a_message_comes_out_of_its_frame_as_it_went_in(messages: Any, message: Any) -> None:
    found = decode(encode(message, messages), messages)
    assert comparable(found) == comparable(message)


@pytest.mark.parametrize(("union", "examples"), [(union, one) for union, _, one in EXAMPLES])
def test_each_class_of_a_union_has_an_example(union: Any, examples: list[Any]) -> None:
    assert {*map(type, examples)} == {*get_args(union)}


OTHERS = [
    data.DataRequest | data.DataReply, node.NodeRequest | node.NodeReply, CompilerReply,
    generation.GeneratorRequest | generation.GeneratorReply, ray.AgentRequest | ray.AgentReply,
    charts.ChartRequest | charts.ChartReply, integrations.RunRequest | integrations.RunReply,
]  # fmt: skip


@pytest.mark.parametrize(
    "message",
    dict.fromkeys(
        one for union in (*(each for each, *_ in EXAMPLES), *OTHERS) for one in get_args(union)
    ),
    ids=lambda one: one.__name__,
)
def test_a_class_is_sent_by_its_own_name(message: type[Any]) -> None:
    own = (one for one in message.__mro__ if "type" in vars(one).get("__annotations__", ()))
    declared = next(own)
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", declared.__name__).lower()
    assert get_args(declared.__annotations__["type"]) == (name,)
