"""A job that would hold up a device that others use is refused, and the setting is named."""

from dataclasses import replace

import pytest

from auctune.domain import InputError
from auctune.domain.data_size import DataSize
from auctune.files.device_profile import Profile
from auctune.service.jobs.training import (
    Training,
    check_adapter,
    check_batch,
    check_step,
    step_seconds,
)
from support.zones import made_up_profile

SIZE = DataSize(rows=40, mean_tokens=25.0)
# All linear layers of the tiny base, and its size.
FEATURES = {"h.*.c_attn": 1536, "h.*.c_proj": 768, "h.*.mlp.c_fc": 1920, "h.*.mlp.c_proj": 1920}
ALL = ("c_attn", "c_fc", "c_proj")


def tiny_profile() -> Profile:
    return replace(
        made_up_profile(),
        memory_gb=24.5,
        base_weights_gb=0.00316672,
        features=FEATURES,
        default_modules=("c_attn",),
        bytes_per_parameter=16.0,
    )


def test_an_adapter_larger_than_its_base_is_refused_whatever_memory_there_is() -> None:
    profile = tiny_profile()
    for rank in (8, 64):
        check_adapter(Training("file", rank=rank, target_modules=ALL), profile, 24.0)
    huge = Training("file", rank=4096, target_modules=ALL)
    with pytest.raises(InputError) as refused:
        check_adapter(huge, profile, 24.0)
    assert refused.value.place == "market.lora.rank"
    assert "4096 makes an adapter of 2.52e+07 parameters" in str(refused.value)
    assert "at most 128 for these modules: the base has 7.92e+05" in str(refused.value)
    check_adapter(replace(huge, rank=128), profile, 24.0)
    with pytest.raises(InputError, match="129 makes"):
        check_adapter(replace(huge, rank=129), profile, 24.0)


def test_a_module_that_the_base_has_not_is_named_as_requests_call_it() -> None:
    with pytest.raises(InputError) as refused:
        check_adapter(Training("file", target_modules=("nonsense",)), tiny_profile(), 24.0)
    assert refused.value.place == "market.lora.target_modules"


def test_an_adapter_that_fits_into_no_memory_is_refused() -> None:
    with pytest.raises(InputError, match="more than any node has free"):
        check_adapter(Training("file", rank=4096), replace(tiny_profile(), origin=ODD), 0.09)


def test_pairs_from_an_adapter_need_memory_for_its_weights_too() -> None:
    pairs = Training("file", rank=8, method="dpo", start_from="file-a")
    alone = check_adapter(replace(pairs, start_from=None), tiny_profile(), 24.0)
    assert check_adapter(replace(pairs, method="supervised"), tiny_profile(), 24.0) == alone
    assert check_adapter(pairs, tiny_profile(), 24.0) == 1.25 * alone


ODD = replace(made_up_profile().origin, dtype="of tomorrow")


@pytest.mark.parametrize(("rows", "most"), [(40, 40), (3, 8)])
def test_a_batch_holds_each_row_once_and_the_default_is_always_right(rows: int, most: int) -> None:
    size = DataSize(rows, 25.0)
    check_batch(Training("file", batch_size=most), size)
    with pytest.raises(InputError, match=f"at most {most}: the training file has {rows} rows"):
        check_batch(Training("file", batch_size=most + 1), size)


def test_a_step_that_is_longer_than_a_quantum_is_refused() -> None:
    profile, training = made_up_profile(), Training("file", batch_size=40)
    # 1,000 tokens in 10 passes of 0.01 s, at a millisecond each, a tenth of the speed not sold.
    seconds = step_seconds(training, SIZE, profile)
    assert seconds == pytest.approx((0.1 + 1.0) / 0.9, rel=0.01)
    assert check_step(training, SIZE, profile, seconds) == seconds
    with pytest.raises(InputError) as refused:
        check_step(training, SIZE, profile, 0.99 * seconds)
    assert refused.value.place == "hyperparameters.batch_size"
    # A larger adapter takes longer, as measured: 10,000 features of rank 2500.
    profile = replace(profile, parameter_seconds=6e-11)
    large = Training("file", batch_size=40, rank=2500)
    assert step_seconds(large, SIZE, profile) == pytest.approx((0.1 + 1.0 + 1.5) / 0.9)
