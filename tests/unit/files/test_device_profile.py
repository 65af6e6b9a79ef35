import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain import InputError
from auctune.domain.data_size import DataSize
from auctune.domain.training import TrainingConfig
from auctune.files.device_profile import (
    Batch,
    Mix,
    Origin,
    Profile,
    SweepPoint,
    job_token_cost,
    physical_devices,
    read_profile,
    write_profile,
)

ORIGIN = Origin(
    measured_at="2026-01-01T00:00:00+00:00",
    device="cpu",
    device_name="a CPU",
    num_threads=1,
    base_name="tiny",
    architecture="00ff",
    dtype="float32",
    attention="sdpa",
    versions={"torch": "2.13.0"},
)
PROFILE = Profile(
    origin=ORIGIN,
    memory_gb=16.0,
    base_weights_gb=2.0,
    activations_gb=0.5,
    features={"h.*.attn.c_attn": 4000, "h.*.attn.c_proj": 2000, "h.*.mlp.c_proj": 5000},
    default_modules=("c_attn",),
    bytes_per_parameter=16.0,
    step_seconds=0.02,
    token_seconds=0.001,
    micro_batch_tokens=100,
    base_load_seconds=3.0,
    task_load_seconds=0.3,
    checkpoint_seconds=0.1,
    suspend_seconds=0.2,
    tasks_per_slot=4,
    margin=0.25,
    sweep=(SweepPoint(50, 0.07), SweepPoint(100, 0.12)),
    mixes=(Mix(2, 100, 0.12, 0.16),),
)


def test_compute_is_full_passes_in_what_is_left_of_a_slot() -> None:
    # 10 s less 4 x 0.5 s; 100 tokens in 0.02 + 0.1 s, less a quarter: 625 tokens/s; 50 a sample.
    assert PROFILE.compute(10, 50) == pytest.approx(8 * 625 / 50)


def test_a_task_is_bounded_by_its_own_speed_and_by_its_share() -> None:
    # Batches of 10 tokens: 10 in 0.02 + 0.01 s, less a quarter: 250 tokens/s, in 9.5 s.
    small, large = PROFILE.reference_batch(10), PROFILE.reference_batch(250)
    assert PROFILE.throughput(10, 50, small, share=1) == pytest.approx(9.5 * 250 / 50)
    assert PROFILE.throughput(10, 50, small) == pytest.approx(0.25 * 100)
    # 250 tokens are three passes: 0.06 + 0.25 s.
    speed = 0.75 * 250 / 0.31
    assert PROFILE.throughput(10, 50, large, share=1) == pytest.approx(min(100, 9.5 * speed / 50))


@given(
    st.floats(2.1, 1e5),
    st.floats(1, 1e4),
    st.integers(1, 10**6),
    st.floats(0.01, 1),
)
def test_no_task_is_sold_more_than_its_share_and_longer_slots_give_more(
    slot_seconds: float, sample_tokens: float, batch_tokens: int, share: float
) -> None:
    compute = PROFILE.compute(slot_seconds, sample_tokens)
    batch = PROFILE.reference_batch(batch_tokens)
    throughput = PROFILE.throughput(slot_seconds, sample_tokens, batch, share)
    assert 0 < throughput <= share * compute
    assert PROFILE.compute(2 * slot_seconds, sample_tokens) > 2 * compute
    assert PROFILE.compute(slot_seconds, 2 * sample_tokens) == pytest.approx(compute / 2)


# A pass of 100 tokens of the sweep takes 0.02 + 0.1 s as such, 0.01 s for its adapter of 32,000
# parameters and 0.032 s for their products, and 0.002 s for attention within two rows of 50.
DETAILED = dataclasses.replace(
    PROFILE,
    adapter_seconds=0.01,
    parameter_seconds=1e-8,
    square_seconds=4e-7,
    row_tokens=50,
    resident_seconds=0.1,
)

BATCH = Batch(10, 0, 0)
batches = st.builds(Batch, st.integers(1, 10**6), st.floats(0, 1e9), st.floats(0, 1e12))


@given(batches)
def test_a_profile_without_terms_sells_all_tokens_alike(batch: Batch) -> None:
    data = json.loads(PROFILE.to_json())
    for name in ("adapter_seconds", "parameter_seconds", "square_seconds", "row_tokens"):
        del data[name]
    del data["resident_seconds"]
    old = Profile.from_json(json.dumps(data), "p.json")
    assert old == PROFILE
    assert old.token_cost(batch) == 1.0


def test_a_token_is_sold_as_what_it_takes_beside_one_of_the_sweep() -> None:
    reference = 0.02 + 0.1 + 0.01 + 0.032 + 0.002
    assert DETAILED.tokens_per_second() == pytest.approx(0.75 * 100 / reference)
    assert DETAILED.token_cost(DETAILED.reference_batch()) == 1
    # Rows of 50 tokens as in the sweep; of ten times the parameters; four rows in one.
    for batch, own in (
        (Batch(100, 320_000, 5_000), 0.01 + 0.32 + 0.002),
        (Batch(200, 32_000, 200 * 200), 0.01 + 2 * 0.032 + 0.016),
        (Batch(25, 0, 25 * 5), 0.01 + 0.00005),
    ):
        share = batch.tokens / 100
        cost = (own + share * (0.02 + 0.1)) / (share * reference)
        assert DETAILED.token_cost(batch) == pytest.approx(cost)
        passes = math.ceil(share)
        assert DETAILED.batch_seconds(batch) == pytest.approx(
            (own + 0.02 * passes + 0.1 * share) / 0.75
        )


@given(batches, st.floats(1, 1e3))
def test_more_parameters_and_longer_rows_never_cost_less(batch: Batch, factor: float) -> None:
    for name in ("parameters", "square_tokens"):
        more = dataclasses.replace(batch, **{name: factor * getattr(batch, name)})
        assert DETAILED.token_cost(more) >= DETAILED.token_cost(batch)
        assert DETAILED.batch_seconds(more) >= DETAILED.batch_seconds(batch)


@given(batches, st.floats(2.1, 1e4), st.floats(0.01, 1))
def test_what_a_task_is_sold_in_a_slot_takes_no_longer_than_its_share_of_it(
    batch: Batch, slot_seconds: float, share: float
) -> None:
    samples = DETAILED.throughput(slot_seconds, 50, batch, share)
    tokens = 50 * samples / DETAILED.token_cost(batch)
    # In passes that others fill, and in its own ones.
    reference = 100 / DETAILED.tokens_per_second() / 100
    assert tokens * DETAILED.token_cost(batch) * reference <= share * slot_seconds * (1 + 1e-9)
    alone = tokens / batch.tokens * DETAILED.batch_seconds(batch)
    assert alone <= slot_seconds * (1 + 1e-9)


def test_a_batch_of_a_job_has_its_rank_modules_and_rows() -> None:
    training = TrainingConfig(rank=16, target_modules=("c_proj",), batch_size=4)
    size = DataSize(40, 25.0, square_tokens=700.0)
    assert PROFILE.batch(training, size) == Batch(100, 16 * 7000, 2800.0)
    assert PROFILE.batch(training, DataSize(40, 25.0), 2) == Batch(50, 16 * 7000, 2 * 625.0)


def test_a_slot_has_the_time_to_load_its_tasks_and_to_write_their_checkpoints() -> None:
    usable = 10 - 4 * (0.3 + 0.1)
    speed = DETAILED.tokens_per_second()
    assert DETAILED.compute(10, 50) == pytest.approx(usable * speed / 50)
    expected = "1.6 is too short to load 4 tasks and write their checkpoints; expected more than"
    with pytest.raises(InputError, match=f"{expected} 1.6"):
        DETAILED.compute(1.6, 50)
    waiting = dataclasses.replace(DETAILED, checkpoint_seconds=0.4).waiting_for_checkpoints()
    assert waiting.resident_seconds == 0.4
    assert waiting.waiting_for_checkpoints() == waiting
    assert PROFILE.waiting_for_checkpoints() == PROFILE


def test_rows_of_the_sweeps_small_passes_are_shared_by_devices() -> None:
    four = dataclasses.replace(DETAILED, origin=dataclasses.replace(ORIGIN, num_devices=4))
    assert DETAILED.reference_batch(40).square_tokens == 40 * 40
    assert four.reference_batch(40).square_tokens == 40 * 10
    assert four.reference_batch(400).square_tokens == 400 * 50


def test_a_token_of_a_job_costs_what_it_costs_on_the_slowest_device() -> None:
    slow = dataclasses.replace(DETAILED, parameter_seconds=1e-6)
    training, size = TrainingConfig(rank=64, epochs=3), DataSize(40, 25.0)
    cost = job_token_cost(training, size, [DETAILED, slow])
    assert cost == slow.token_cost(slow.batch(training, size))
    assert cost > DETAILED.token_cost(DETAILED.batch(training, size))
    assert job_token_cost(training, size, [PROFILE]) == 1.0


def test_a_share_of_a_device_takes_longer_for_everything() -> None:
    half = DETAILED.at_share(0.5)
    assert half.resident_seconds == 0.2
    assert half.parameter_seconds == 2e-8
    assert half.token_cost(Batch(10, 1e6, 300)) == pytest.approx(
        DETAILED.token_cost(Batch(10, 1e6, 300))
    )
    assert PROFILE.at_share(0.5).resident_seconds is None


def test_memory_of_base_and_tasks() -> None:
    assert PROFILE.base_memory_gb == 2.5
    assert PROFILE.task_memory_gb(8) == pytest.approx(8 * 4000 * 16 / 1e9)
    assert PROFILE.task_memory_gb(8, ("c_proj",)) == pytest.approx(8 * 7000 * 16 / 1e9)
    assert PROFILE.task_memory_gb(8, ("mlp.c_proj", "c_proj")) == PROFILE.task_memory_gb(
        8, ("c_proj",)
    )
    assert PROFILE.task_memory_gb(8, ("h.3.attn.c_attn",)) == PROFILE.task_memory_gb(8, ("c_attn",))
    assert PROFILE.task_memory_gb(8, ("c_attn",), "sgd") == PROFILE.task_memory_gb(4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PROFILE.compute(2, 50), "slot_seconds: 2 is too short to load 4 tasks"),
        (lambda: PROFILE.compute(math.nan, 50), "slot_seconds: nan is too short"),
        (lambda: PROFILE.compute(10, 0), "sample_tokens: 0; expected tokens of a sample > 0"),
        (
            lambda: PROFILE.throughput(10, 50, Batch(10, 0, 0), 0),
            r"share: 0; expected a share in \(0, 1\]",
        ),
        (lambda: Batch(0, 0, 0), "batch_tokens: 0; expected a whole number >= 1"),
        (lambda: PROFILE.task_memory_gb(8, ("attn",)), "target_modules: 'attn' fits no module"),
        (lambda: PROFILE.task_memory_gb(8, (), "adam"), "optimizer: 'adam' is unknown"),
    ],
)
def test_what_cannot_be_answered_is_refused_by_name(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def test_a_base_without_default_modules_wants_them_named() -> None:
    bare = dataclasses.replace(PROFILE, default_modules=())
    assert bare.task_memory_gb(8, ("c_attn",)) > 0
    with pytest.raises(InputError, match="target_modules: is empty"):
        bare.task_memory_gb(8)


finite = st.floats(1e-9, 1e9)


@given(
    st.builds(
        dataclasses.replace,
        st.just(PROFILE),
        memory_gb=finite,
        step_seconds=finite,
        token_seconds=finite,
        margin=st.floats(0, 1, exclude_max=True),
        features=st.dictionaries(st.text(), st.integers(1), max_size=3),
        sweep=st.lists(st.builds(SweepPoint, st.integers(), finite)).map(tuple),
    )
)
def test_a_profile_comes_back_from_json_as_it_was(profile: Profile) -> None:
    assert Profile.from_json(profile.to_json(), "p") == profile


def test_a_profile_comes_back_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    write_profile(dataclasses.replace(PROFILE, margin=0.5), path)
    write_profile(PROFILE, path)
    assert read_profile(path) == PROFILE
    assert [entry.name for entry in tmp_path.iterdir()] == ["profile.json"]
    with pytest.raises(InputError, match=r"none.json: cannot be read \(No such file"):
        read_profile(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("margin",), 1.0, r"^p.json: margin: 1.0; expected a share in \[0, 1\)"),
        (("step_seconds",), -1.0, r"^p.json: step_seconds: -1.0; expected a number >= 0"),
        (("token_seconds",), 0.0, r"^p.json: token_seconds: 0.0; expected a number > 0"),
        (("memory_gb",), "much", r"^p.json: memory_gb: 'much'; expected .*number"),
        (("micro_batch_tokens",), 0, r"^p.json: micro_batch_tokens: 0; expected a whole number"),
        (("features", "h.*.attn.c_attn"), 0, r"^p.json: features.h.\*.attn.c_attn: 0; expected"),
        (("origin", "device"), "tpu", r"^p.json: origin.device: 'tpu'; expected .*'cpu' or 'cuda'"),
        (("origin", "num_threads"), 1.5, r"^p.json: origin.num_threads: 1.5; expected"),
        (("sweep", 1, "tokens"), None, r"^p.json: sweep\[1\].tokens: null; expected"),
        (("surprise",), 1, r"^p.json: surprise: is an unknown key"),
    ],
)
def test_a_malformed_field_is_named_by_its_path(
    path: tuple[str | int, ...], value: object, message: str
) -> None:
    data = json.loads(PROFILE.to_json())
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(InputError, match=message):
        Profile.from_json(json.dumps(data), "p.json")


REQUIRED = [
    field.name for field in dataclasses.fields(Profile) if field.default is dataclasses.MISSING
]


@pytest.mark.parametrize(("written", "every"), [(True, 1), (False, 0), (3, 3), (None, 0)])
def test_a_profile_may_say_by_true_or_false_whether_each_layer_was_recomputed(
    written: object, every: int
) -> None:
    data = json.loads(PROFILE.to_json())
    data["origin"]["gradient_checkpointing"] = written
    if written is None:
        del data["origin"]["gradient_checkpointing"]
    profile = Profile.from_json(json.dumps(data), "p.json")
    assert profile.origin.gradient_checkpointing == every
    profile.check_settings("p.json", every)
    with pytest.raises(InputError, match=f"p.json: was measured with gradient_c.* = {every}; "):
        profile.check_settings("p.json", every + 1)


def test_a_profile_is_of_so_many_devices() -> None:
    data = json.loads(PROFILE.to_json())
    del data["origin"]["num_devices"]
    one = Profile.from_json(json.dumps(data), "p.json")
    data["origin"]["num_devices"] = 2
    two = Profile.from_json(json.dumps(data), "p.json")
    assert one.origin.num_devices == 1
    assert one.origin.key != two.origin.key
    one.check_settings("p.json", 0)
    two.check_settings("p.json", 0, 2)
    with pytest.raises(InputError, match=r"p.json: was measured with devices = 2; .*--devices 1"):
        two.check_settings("p.json", 0)


@pytest.mark.parametrize(
    ("device", "count", "expected"),
    [
        ("cpu", 1, ("cpu",)),
        ("cpu", 3, ("cpu",)),
        ("cuda", 2, ("cuda:0", "cuda:1")),
        ("cuda:3", 1, ("cuda:3",)),
        ("cuda:2", 2, ("cuda:2", "cuda:3")),
    ],
)
def test_devices_of_a_node_follow_each_other(
    device: str, count: int, expected: tuple[str, ...]
) -> None:
    assert physical_devices(device, count) == expected


@pytest.mark.parametrize("field", REQUIRED)
def test_a_missing_field_is_named(field: str) -> None:
    data = json.loads(PROFILE.to_json())
    del data[field]
    with pytest.raises(InputError, match=f"^p.json: {field}: is missing; expected"):
        Profile.from_json(json.dumps(data), "p.json")


def test_what_is_no_json_is_said() -> None:
    with pytest.raises(InputError, match=r"^p.json: is not valid JSON \(EOF while"):
        Profile.from_json("{", "p.json")


def test_the_key_changes_with_all_that_a_profile_depends_on() -> None:
    same = dataclasses.replace(ORIGIN, measured_at="later", base_name="other")
    assert same.key == ORIGIN.key
    others: list[dict[str, Any]] = [
        {"device": "cuda"},
        {"device_name": "b"},
        {"num_threads": 2},
        {"architecture": "1"},
        {"dtype": "bfloat16"},
        {"attention": "eager"},
        {"versions": {"torch": "2.14.0"}},
    ]
    assert len({dataclasses.replace(ORIGIN, **other).key for other in others} | {ORIGIN.key}) == 8


def test_what_is_left_unsold_is_said_above_a_margin_of_30_percent() -> None:
    assert dataclasses.replace(PROFILE, margin=0.3).warnings() == []
    (warning,) = dataclasses.replace(PROFILE, margin=0.61).warnings()
    assert warning.startswith("61% of the measured speed is kept back and not sold")
    assert "auctune profile" in warning
    # `auctune serve` prints zone and node type behind it.
    assert warning.endswith("name the file in the setting `profile` of the node type.")
    (warning,) = dataclasses.replace(PROFILE, margin=0.1, not_measured=("mixed loads",)).warnings()
    assert warning.startswith("not measured within the time: mixed loads; so 10% of the speed is")
    assert warning.endswith("give it more time (auctune profile --seconds).")
    # Without any mixed load the margin is a guess, and no sign of a busy machine.
    filled = dataclasses.replace(PROFILE, margin=0.5, mixes=(), not_measured=("mixed loads",))
    (warning,) = filled.warnings()
    assert "so 50% of the speed is kept back" in warning
