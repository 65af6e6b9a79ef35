"""How a run of `auctune spot run` is set in tests: on a model clock, by a quick policy."""

from auctune.standalone.spot_inputs import RunSettings

SPOT_SETTINGS = RunSettings(
    policy="msu",
    forecast="seasonal",
    start=0,
    slot_seconds=None,
    warm=True,
    device="cpu",
    dtype="float32",
    threads=1,
    seed=0,
    base="",
    fixed_price=None,
)
