from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.files.schema import hyperparameters_of
from auctune.sim.spot.job_file import read_job_file
from auctune.spot import InstanceStart, LinearScaling, Overhead, SpotJob, TableScaling

LEAST = "[job]\nworkload = 80\ndeadline_slots = 10\n"
WHOLE = """
[job]
workload = 80.5
deadline_slots = 10
hard_factor = 2
value = 200
n_min = 2
n_max = 4

[scaling]
table = [1, 1.9, 2.7, 3.4]

[overhead]
changeover = "by_total"
mu1 = 0.8
mu2 = 0.9

[market]
on_demand_price = 3.06
slot_seconds = 900

[training]
base = "tiny-llama"
data = "rows.jsonl"
batch_size = 16
micro_batch = 4
rank = 4
target_modules = ["q_proj"]
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "JOB.toml"
    path.write_text(text)
    return path


def test_a_whole_file_says_all(tmp_path: Path) -> None:
    file = read_job_file(write(tmp_path, WHOLE))
    assert file.spot_job() == SpotJob(
        workload=80.5,
        deadline=10,
        hard_factor=2.0,
        value=200.0,
        n_min=2,
        n_max=4,
        scaling=TableScaling((1.0, 1.9, 2.7, 3.4)),
        overhead=Overhead(0.8, 0.9),
    )
    assert (file.market.on_demand_price, file.market.slot_seconds) == (3.06, 900.0)
    assert file.training is not None
    training = hyperparameters_of(file.training)
    assert (training["batch_size"], file.training.micro_batch) == (16, 4)
    assert training["target_modules"] == ("q_proj",)


def test_what_is_left_out_is_as_the_mechanism_has_it(tmp_path: Path) -> None:
    file = read_job_file(write(tmp_path, LEAST))
    by_instance = InstanceStart(180 / 1800)
    assert file.spot_job() == SpotJob(workload=80.0, deadline=10, overhead=by_instance)
    assert file.spot_job().value == 120
    assert (file.market.on_demand_price, file.market.slot_seconds) == (1.0, 1800.0)
    assert file.training is None
    quick = LEAST + "[overhead]\nstart_seconds = 720\n[market]\nslot_seconds = 600\n"
    assert read_job_file(write(tmp_path, quick)).spot_job().overhead == InstanceStart(1.2)
    # A slot that is shorter than the usual start is all start.
    short = read_job_file(write(tmp_path, LEAST + "[market]\nslot_seconds = 60\n"))
    assert short.spot_job().overhead == InstanceStart(1.0)
    large = read_job_file(write(tmp_path, LEAST + "n_max = 100\n"))
    assert large.spot_job().overhead == Overhead()
    total = read_job_file(write(tmp_path, LEAST + '[overhead]\nchangeover = "by_total"\n'))
    assert total.spot_job().overhead == Overhead()
    linear = read_job_file(write(tmp_path, LEAST + "[scaling]\nc = -0.25\n"))
    assert linear.spot_job().scaling == LinearScaling(1.0, -0.25)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("workload = 80.5", "", r"JOB\.toml: job\.workload: is missing"),
        ("workload = 80.5", "workload = -1", r"JOB\.toml: job\.workload: -1"),
        ("workload = 80.5", "workload = nan", r"job\.workload: nan"),
        ("workload = 80.5", 'workload = "80"', r"job\.workload: '80'"),
        ("deadline_slots = 10", "deadline_slots = 2.5", r"job\.deadline_slots: 2\.5"),
        ("deadline_slots = 10", "deadline_slots = 0", r"job\.deadline_slots: 0"),
        ("deadline_slots = 10", "deadline = 10", r"job\.deadline_slots: is missing"),
        ("value = 200", "valu = 200", r"job\.valu: is an unknown key; expected one of workload"),
        ("hard_factor = 2", "hard_factor = 0.9", r"job\.hard_factor: 0\.9"),
        ("n_max = 4", "n_max = 1", r"job\.n_max: 1; expected a whole number >= n_min = 2"),
        ("n_max = 4", "n_max = 5", r"scaling\.table: a table of 4 counts; expected one of 5"),
        ("n_min = 2", "n_min = true", r"job\.n_min: true"),
        ("1.9, 2.7", "1.9, 1.8", r"scaling\.table\[2\]: 1\.8 after 1\.9"),
        ("1.9, 2.7", "1.9, 0", r"scaling\.table\[2\]: 0"),
        ("table = [1", "a = 1\ntable = [1", r"scaling: has a table beside a or c"),
        ("table = [1, 1.9, 2.7, 3.4]", "c = -1", r"scaling\.c: -1\.0; .* a \+ c > 0"),
        ("mu1 = 0.8", "mu1 = 0.95", r"overhead\.mu1: 0\.95; expected a number <= mu2 = 0\.9"),
        ("mu2 = 0.9", "mu2 = 1.5", r"overhead\.mu2: 1\.5"),
        (
            "mu2 = 0.9",
            "start_seconds = 9",
            r"overhead: has both mu1 and start_seconds; expected mu1 and mu2 \(by total\) or s",
        ),
        ("mu1 = 0.8", "start_seconds = 9", r"overhead: has both mu2 and start_seconds"),
        ("by_total", "by_instance", r"overhead\.mu1: is given; .*by_total"),
        (
            "mu1 = 0.8\nmu2 = 0.9",
            "start_seconds = 9",
            r'overhead\.start_seconds: is given; expected changeover = "by_instance" beside it',
        ),
        (
            'changeover = "by_total"\nmu1 = 0.8\nmu2 = 0.9',
            "start_seconds = 901",
            r"overhead\.start_seconds: a start of 1\.00111 slots; expected at most 1, or n_min = 1",
        ),
        ("by_total", "by_slot", r"overhead\.changeover: 'by_slot'"),
        ("slot_seconds = 900", "slot_seconds = 0", r"market\.slot_seconds: 0"),
        ("on_demand_price = 3.06", "on_demand_price = inf", r"market\.on_demand_price: inf"),
        ("micro_batch = 4", "micro_batch = 17", r"training\.micro_batch: 17; expected at most"),
        ('base = "tiny-llama"', "", r"training\.base: is missing"),
        ("[market]", "[markt]", r"JOB\.toml: markt: is an unknown key; expected one of job, sc"),
        ("[job]", "[job", r"JOB\.toml: is not TOML"),
    ],
)
def test_a_wrong_key_is_named_by_its_path(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in WHOLE
    with pytest.raises(InputError, match=message):
        read_job_file(write(tmp_path, WHOLE.replace(old, new, 1)))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"JOB\.toml: cannot be read"):
        read_job_file(tmp_path / "JOB.toml")
