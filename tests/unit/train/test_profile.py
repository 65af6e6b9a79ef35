import math
import random
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedModel

from auctune.datasets import read_dataset
from auctune.domain import InputError
from auctune.files.device_profile import Mix, SweepPoint
from auctune.train.base import (
    Base,
    default_modules,
    linear_features,
    load_base,
    num_weight_bytes,
)
from auctune.train.cost_model import RoundCost, predict
from auctune.train.host import device_name, library_versions, usable_bytes
from auctune.train.job import LoraJob
from auctune.train.multilora.device_group import DeviceGroup
from auctune.train.peak_memory import peak_bytes
from auctune.train.profile import (
    BUSY,
    MIN_MARGIN,
    MIX_RANKS,
    SWEEP_END,
    UNMEASURED_MARGIN,
    Effort,
    Profile,
    _Measurement,
    measure_profile,
)
from auctune.train.rows import tokenize
from auctune.train.synthetic_workload import (
    MIN_TOKENS,
    MIX_TASKS,
    MeasurementError,
    SyntheticWorkload,
    random_mix,
    random_shapes,
    round_tokens,
)
from auctune.train.trainer import MultiLoraTrainer

pytest_plugins = ["support.tiny_bases"]
pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
# The least that still measures everything once.
SHORT = Effort(
    seconds=1e6,
    sweep_tokens=(("cpu", 128), ("cuda", 512)),
    timed=3,
    mixes=2,
    load_rows=10,
)


def gpt2() -> PreTrainedModel:
    return GPT2LMHeadModel(GPT2Config(vocab_size=50, n_embd=16, n_layer=3, n_head=2))


def llama() -> PreTrainedModel:
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=50,
            hidden_size=16,
            intermediate_size=24,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
        )
    )


@pytest.fixture(scope="module")
def measured(tiny_cache: Path) -> tuple[Profile, list[tuple[str, float]]]:
    said: list[tuple[str, float]] = []
    base = load_base("tiny", cache=tiny_cache)
    profile = measure_profile(base, effort=SHORT, report=lambda *what: said.append(what))
    return profile, said


def test_a_measured_profile_holds_together(
    measured: tuple[Profile, list[tuple[str, float]]], tiny_base: Base
) -> None:
    profile, said = measured
    assert Profile.from_json(profile.to_json(), "p") == profile
    assert [point.tokens for point in profile.sweep] == [32, 64, 128]
    assert profile.micro_batch_tokens in (32, 64, 128)
    assert profile.base_weights_gb == num_weight_bytes(tiny_base.model) / 1e9
    assert profile.origin.architecture == tiny_base.architecture
    assert profile.origin.device == "cpu"
    assert len(profile.mixes) == 2
    shares = [share for _, share in said]
    assert (shares[0], shares[-1]) == (0, 1)
    assert shares == sorted(shares)
    # Nothing was left out, as there was time for all of it; others may be at work meanwhile.
    assert set(profile.not_measured) <= {BUSY}
    assert {what for what, _ in said} >= {"speed of passes", "task switches", "mixed loads"}
    assert profile.resident_seconds is not None
    assert profile.resident_seconds > 0


def test_memory_of_tasks_that_share_a_node_adds_up(tiny_base: Base, tmp_path: Path) -> None:
    budget = 128
    profile = measure_profile(tiny_base, effort=SHORT, token_budget=budget)
    assert profile.micro_batch_tokens == budget
    trainer = MultiLoraTrainer(tiny_base, token_budget=budget)
    workload = SyntheticWorkload(tiny_base, tmp_path, seed=1)
    ranks = (1, 4, 8, 16)
    jobs = [workload.job(2, 32, rank) for rank in ranks]
    workload.load(trainer, jobs)
    workload.rounds(trainer, jobs, 1)
    tasks = 0.0
    for job, rank in zip(jobs, ranks, strict=True):
        held = trainer.progress(job.id).memory_gb
        assert held == pytest.approx(profile.task_memory_gb(rank), rel=0.01)
        tasks += held
    peak = peak_bytes(lambda: workload.rounds(trainer, jobs, 2), CPU) / 1e9
    assert num_weight_bytes(tiny_base.model) / 1e9 + tasks + peak <= 1.1 * (
        profile.base_memory_gb + sum(map(profile.task_memory_gb, ranks))
    )


def test_a_sweep_is_fitted_by_the_rows_that_it_ran_on_several_devices(
    tiny_base: Base, tmp_path: Path
) -> None:
    devices = DeviceGroup()
    devices.num_devices = 4
    workload = SyntheticWorkload(tiny_base, tmp_path, 0)
    measurement = _Measurement(tiny_base, SHORT, workload, 0, lambda *_: None, devices=devices)
    # Of 128 tokens each device had a row of 32; of 4,096 it had four of 256.
    sweep = [SweepPoint(128, 0.1), SweepPoint(4096, 1.0)]
    squares = [one.round.square_tokens for one in measurement.passes(sweep)]
    assert squares == [4 * 32**2, 16 * 256**2]
    assert measurement.budget_pass(sweep, 128)[0] == (4, 32)


class BusyAtFirst(_Measurement):
    """Something else holds the device during the first sweep."""

    num_sweeps = 0

    def sweep(self, what: str = "passes", end: float = SWEEP_END) -> list[SweepPoint]:
        self.num_sweeps += 1
        slower = 1000 if self.num_sweeps == 1 else 1
        points = super().sweep(what, end)
        return [replace(point, seconds=slower * point.seconds) for point in points]


class SlowWorkload(SyntheticWorkload):
    """A workload on whose clock each look, and so each round, takes seconds."""

    time = 0.0
    seconds_a_look = 0.0

    def now(self) -> float:
        self.time += self.seconds_a_look
        return self.time


@pytest.mark.parametrize(
    ("seconds_a_look", "left_out", "margin"),
    [
        # A look a second: fewer rounds of everything, and not all mixed loads.
        (1.0, "mixed loads but", MIN_MARGIN),
        # A round takes longer than its whole part: each part runs once.
        (20.0, "passes of more than 32 tokens", UNMEASURED_MARGIN),
    ],
)
def test_a_slow_device_is_measured_in_bounded_time_and_sells_too_little_rather_than_too_much(
    tiny_base: Base, tmp_path: Path, seconds_a_look: float, left_out: str, margin: float
) -> None:
    said: list[tuple[str, float]] = []
    workload = SlowWorkload(tiny_base, tmp_path, 0)
    workload.seconds_a_look = seconds_a_look
    effort = replace(SHORT, timed=10, mixes=10, seconds=60.0)
    slow = _Measurement(tiny_base, effort, workload, 0, lambda *what: said.append(what))
    profile = slow.run(None)
    # What each part takes at least goes beyond the limit, where a single round does.
    assert workload.time <= 60.0 + 40 * seconds_a_look
    assert any(left_out in what for what in profile.not_measured)
    assert profile.margin >= margin
    assert profile.micro_batch_tokens <= profile.sweep[-1].tokens
    assert any("not measured within the time" in warning for warning in profile.warnings())
    assert Profile.from_json(profile.to_json(), "p") == profile
    shares = [share for _, share in said]
    assert (shares[0], shares[-1]) == (0, 1)
    assert shares == sorted(shares)


def test_a_sweep_that_was_disturbed_is_made_again(tiny_base: Base, tmp_path: Path) -> None:
    said: list[str] = []
    workload = SyntheticWorkload(tiny_base, tmp_path, 0)
    busy = BusyAtFirst(tiny_base, SHORT, workload, 0, lambda what, _: said.append(what))
    profile = busy.run(None)
    assert busy.num_sweeps > 1
    assert any("once more" in what for what in said)
    # Wide, as others may be at work on the machine that runs the tests.
    assert min(mix.predicted_seconds / mix.measured_seconds for mix in profile.mixes) < 100


class TimedWorkload(SyntheticWorkload):
    """Trains nothing: rounds take the predicted time, times the factors of a mix."""

    slower: Mapping[int, list[float]] = {}
    num_calls = 0

    def job(self, num_rows: int, row_tokens: int, rank: int = 8) -> LoraJob:
        return LoraJob(
            id="timed",
            data=self.folder / "none.jsonl",
            epochs=1,
            rank=rank,
            batch_size=num_rows,
            max_length=row_tokens,
        )

    def load(self, trainer: MultiLoraTrainer, jobs: Sequence[LoraJob]) -> None:
        pass

    def unload(self, trainer: MultiLoraTrainer, jobs: Sequence[LoraJob]) -> None:
        pass

    def rounds(
        self,
        trainer: MultiLoraTrainer,
        jobs: Sequence[LoraJob],
        count: int,
        until: float = math.inf,
    ) -> list[float]:
        self.num_calls += 1
        # After one that warms up, each load is followed by a pass of the sweep.
        is_load = self.num_calls > 1 and self.num_calls % 2 == 0
        factors = self.slower.get(self.num_calls // 2, ONES) if is_load else ONES
        seconds = predict(round_tokens(jobs), 64, 1e-3, 1e-4)
        return [factor * seconds for factor in factors[:count]]


def margin_of_timed(base: Base, folder: Path, slower: Mapping[int, list[float]]) -> float:
    workload = TimedWorkload(base, folder, 0)
    workload.slower = slower
    measurement = _Measurement(base, Effort(seconds=1e6), workload, 0, lambda *_: None)
    sweep = [SweepPoint(n, predict(n, n, 1e-3, 1e-4)) for n in (16, 32, 64)]
    loads = measurement.mixed_rounds(sweep, 64, (4, 8, 64))
    assert len(loads) == workload.num_calls // 2 == Effort().mixes == 10
    assert measurement.not_measured == []
    # By the line of the sweep, as if no term had been fitted to the loads.
    line = RoundCost(1e-3, 1e-4)
    return measurement.margin(
        [Mix(1, one.round.tokens, line.seconds(one.round), one.seconds) for one in loads]
    )


def test_a_disturbed_load_decides_no_margin_and_a_slowdown_of_the_device_does(
    tiny_base: Base, tmp_path: Path
) -> None:
    margin = partial(margin_of_timed, tiny_base, tmp_path)
    assert margin({7: [10.0] * 3}) == pytest.approx(0.0)
    # Of each load, one round may be disturbed as well.
    assert margin({mix: [1.0, 9.0, 1.0] for mix in range(11)}) == pytest.approx(0.0)
    assert margin({mix: [1.25] * 3 for mix in range(11)}) == pytest.approx(0.2)
    assert margin({3: [1.25] * 3, 9: [2.0] * 3}) == pytest.approx(0.2)


def test_loads_differ_in_adapters_ranks_and_rows(tiny_base: Base, tmp_path: Path) -> None:
    workload = TimedWorkload(tiny_base, tmp_path, 0)
    effort = replace(Effort(seconds=1e6), mixes=20)
    measurement = _Measurement(tiny_base, effort, workload, 0, lambda *_: None)
    sweep = [SweepPoint(n, predict(n, n, 1e-3, 1e-4)) for n in (128, 256, 512)]
    rounds = [one.round for one in measurement.mixed_rounds(sweep, 512, MIX_RANKS)]
    assert {one.adapters for one in rounds} >= {1, 2, 8}
    for of_round in (
        lambda one: one.token_parameters / one.tokens,
        lambda one: one.square_tokens / one.tokens,
    ):
        values = list(map(of_round, rounds))
        assert max(values) > 2 * min(values)
    assert all(one.tokens >= 256 for one in rounds)


class BusyWorkload(TimedWorkload):
    """A device whose rounds take the predicted time, times what else is at work then."""

    time = 0.0
    slowdown: Callable[[float, int], float] = staticmethod(lambda time, num_jobs: 1.0)

    def now(self) -> float:
        return self.time

    def rounds(
        self,
        trainer: MultiLoraTrainer,
        jobs: Sequence[LoraJob],
        count: int,
        until: float = math.inf,
    ) -> list[float]:
        seconds: list[float] = []
        for _ in range(count):
            factor = self.slowdown(self.time, len(jobs))
            seconds.append(factor * predict(round_tokens(jobs), 128, 5e-2, 1e-3))
            self.time += seconds[-1]
        return seconds


class SpeedOnly(_Measurement):
    """Without what a timed workload has no figures of."""

    def activations(self, budget: int) -> int:
        return 1_000_000

    def bytes_per_parameter(self) -> float:
        return 16.0

    def swap_seconds(self) -> tuple[float, float, float, float]:
        return 0.1, 0.1, 0.1, 0.1


LIMIT = 60.0
ONES = [1.0] * 3


def measured_while(
    slowdown: Callable[[float, int], float], base: Base, folder: Path
) -> tuple[Profile, float]:
    """The profile of a device that is slowed down, and how long it took."""
    workload = BusyWorkload(base, folder, 0)
    workload.slowdown = slowdown
    effort = replace(SHORT, seconds=LIMIT, mixes=10)
    profile = SpeedOnly(base, effort, workload, 0, lambda *_: None).run(None)
    # The speed of passes is that of an idle device: the quickest sweep counts.
    assert [point.seconds for point in profile.sweep] == pytest.approx(
        [predict(point.tokens, 128, 5e-2, 1e-3) for point in profile.sweep]
    )
    assert profile.micro_batch_tokens == 128
    return profile, workload.time


def slower_between(begin: float, end: float, factor: float) -> Callable[[float, int], float]:
    """Something else is at work for some time."""
    return lambda time, num_jobs: factor if begin < time < end else 1.0


def test_a_profile_predicts_passes_of_the_sweep(tiny_base: Base, tmp_path: Path) -> None:
    profile, _ = measured_while(lambda time, num_jobs: 1.0, tiny_base, tmp_path)
    for point in profile.sweep:
        predicted = profile.batch_seconds(profile.reference_batch(point.tokens))
        assert predicted == pytest.approx(point.seconds)
    batch = profile.reference_batch(32)
    assert profile.compute(60, 50) > profile.throughput(60, 50, batch) > 0


def test_loads_that_something_else_slowed_down_are_measured_again(
    tiny_base: Base, tmp_path: Path
) -> None:
    measured = partial(measured_while, base=tiny_base, folder=tmp_path)
    quiet, took = measured(lambda time, num_jobs: 1.0)
    assert quiet.margin == pytest.approx(0.0, abs=1e-9)
    assert took < LIMIT
    # From the end of the sweep on, until the loads were measured once.
    for slowdown in (3.0, 10.0):
        profile, _ = measured(slower_between(2, LIMIT, slowdown))
        assert profile.margin == pytest.approx(0.0, abs=1e-9)
        # Loads that only the second time was long enough for are not named as left out.
        count = len(profile.mixes)
        assert profile.not_measured == (() if count == 10 else (f"mixed loads but {count} of 10",))


def test_a_device_that_stays_busy_sells_half_of_its_speed_at_least_and_says_why(
    tiny_base: Base, tmp_path: Path
) -> None:
    measured = partial(measured_while, base=tiny_base, folder=tmp_path)
    for slowdown in (2.0, 10.0):
        profile, took = measured(slower_between(2, math.inf, slowdown))
        assert profile.margin == MIN_MARGIN
        assert any(BUSY in warning for warning in profile.warnings())
        # A round more than the limit, at most.
        assert took < 1.5 * LIMIT + 30


def test_loads_that_the_device_itself_slows_down_decide_the_margin(
    tiny_base: Base, tmp_path: Path
) -> None:
    def loads_are_slower(_: float, num_jobs: int) -> float:
        return 1.0 if num_jobs == 1 else 4.0

    profile, _ = measured_while(loads_are_slower, tiny_base, tmp_path)
    # What the terms do not say of them is kept back.
    slower = [mix.measured_seconds / mix.predicted_seconds for mix in profile.mixes]
    assert sum(one > 1 / (1 - profile.margin) * (1 + 1e-9) for one in slower) <= 1
    speed = profile.reference_batch(128)
    assert profile.adapter_seconds > 0 or profile.margin > 0.3
    assert profile.batch_seconds(speed) > 5e-2 + 0.128
    assert BUSY not in profile.not_measured


def test_a_token_budget_that_does_not_fit_is_refused(tiny_base: Base) -> None:
    effort = replace(SHORT, sweep_tokens=(("cpu", 64),))
    with pytest.raises(InputError, match="token_budget: 9999; expected 1 to 64 tokens"):
        measure_profile(tiny_base, effort=effort, token_budget=9999)


@pytest.mark.parametrize("make", [gpt2, llama])
@pytest.mark.parametrize("targets", [None, ["c_proj", "o_proj"], ["c_attn", "q_proj", "up_proj"]])
def test_features_give_the_number_of_parameters_that_peft_trains(
    make: Callable[[], PreTrainedModel], targets: list[str] | None
) -> None:
    model = make()
    known = [name.rpartition(".")[2] for name in linear_features(model)]
    chosen = [name for name in targets or () if name in known]
    adapted_names = [
        name
        for name in linear_features(model)
        if any(name.endswith(f".{target}") for target in chosen)
    ]
    expected = 5 * sum(
        linear_features(model)[name] for name in adapted_names or default_modules(model)
    )
    config = LoraConfig(task_type="CAUSAL_LM", r=5, target_modules=chosen or "all-linear")
    with warnings.catch_warnings():
        # PEFT asks by a name that transformers is about to drop, and tells of GPT-2's layers.
        warnings.filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)
        warnings.filterwarnings("ignore", ".*fan_in_fan_out", UserWarning)
        adapted = get_peft_model(model, config)
    assert adapted.get_nb_trainable_parameters()[0] == expected


def test_made_up_rows_have_exactly_the_tokens_that_were_asked_for(
    tiny_base: Base, tmp_path: Path
) -> None:
    workload = SyntheticWorkload(tiny_base, tmp_path, seed=1)
    for num_rows, row_tokens in ((1, 1 + 1), (3, 17), (2, 512)):
        job = workload.job(num_rows, row_tokens)
        rows = tokenize(read_dataset(job.data), tiny_base.tokenizer, job.max_length).rows
        assert [len(row) for row in rows] == [row_tokens] * num_rows


def test_mixes_are_the_same_for_the_same_seed_and_of_the_size_that_is_asked_for(
    tmp_path: Path,
) -> None:
    def shapes(seed: int) -> list[list[tuple[int, int]]]:
        source = random.Random(seed)
        return [random_shapes(source, 128, 256) for _ in range(5)]

    assert shapes(1) == shapes(1) != shapes(2)
    for jobs in shapes(3):
        assert len(jobs) == MIX_TASKS
        assert all(rows * tokens <= 256 and MIN_TOKENS <= tokens <= 128 for rows, tokens in jobs)
    # The least that there is, where that is more than there is time for.
    assert random_shapes(random.Random(0), MIN_TOKENS, 1) == [(1, MIN_TOKENS)] * MIX_TASKS
    made = [LoraJob(id="a", data=tmp_path, batch_size=n, max_length=32) for n in (1, 2, 4, 8)]
    for seed in range(20):
        mixed = random_mix(random.Random(seed), made, 100, 300)
        assert 100 <= round_tokens(mixed) <= 300


def test_a_job_that_fails_while_it_is_measured_is_an_error(tiny_base: Base, tmp_path: Path) -> None:
    workload = SyntheticWorkload(tiny_base, tmp_path, seed=1)
    trainer = MultiLoraTrainer(tiny_base)
    job = replace(workload.job(2, 16), learning_rate=1e9)
    workload.load(trainer, [job])
    with pytest.raises(MeasurementError, match="a synthetic job failed: "):
        workload.rounds(trainer, [job], 5)


def test_facts_of_the_device_are_there() -> None:
    assert device_name(CPU)
    assert library_versions()["torch"] == torch.__version__
    everything = usable_bytes(CPU, base_bytes=10**15)
    assert 0 < usable_bytes(CPU, base_bytes=0) <= everything


@pytest.mark.gpu
def test_a_gpu_is_measured_by_what_its_allocator_counts(tiny_cache: Path) -> None:
    base = load_base("tiny", cache=tiny_cache, device="cuda")
    profile = measure_profile(base, effort=SHORT)
    assert profile.origin.device == "cuda"
    assert profile.memory_gb > 1
    assert profile.activations_gb > 0
    # Parameter, gradient and two moments in float32, rounded up to the allocator's blocks.
    assert 16 <= profile.bytes_per_parameter < 24
