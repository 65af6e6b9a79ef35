"""Each published format, on a few made-up rows; what is malformed is one clear error."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain import InputError
from auctune.sim.traces import JobLog, read_job_log
from auctune.sim.traces.job_log import make_log

PLAIN = "submit_s,gpus,duration_s,user\n90,2,30,bob\n3600,1,7.5,\n60,0.5,0,ann\n"
HELIOS = """\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
7,uA,vcX,4,16,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:27,2020-06-09 18:45:36,249,0
8,uB,vcX,0,4,1,COMPLETED,2020-06-09 18:41:28,2020-06-09 18:41:28,2020-06-09 18:45:36,248,0
9,uC,vcY,1,1,1,CANCELLED,2020-06-10 00:00:01,2020-06-10 00:00:02,2020-06-10 00:00:02,0,1
"""
PAI_JOBS = """\
j1,i1,ann,Terminated,100000.0,100900.0
j2,i2,bob,Failed,99000.0,99500.0
j3,i3,bob,Running,101000.0,
j4,i4,bob,Terminated,,5000.0
j5,i5,eve,Terminated,99100.0,99200.0
"""
PAI_TASKS = """\
j1,ps,1.0,Terminated,100010.0,100900.0,600.0,29.3,,
j1,worker,2.0,Terminated,100020.0,100900.0,600.0,29.3,50.0,P100
j2,tensorflow,1.0,Failed,99050.0,99500.0,600.0,29.3,100.0,MISC
j3,tensorflow,1.0,Running,101001.0,,600.0,29.3,100.0,MISC
j4,tensorflow,1.0,Terminated,4000.0,5000.0,600.0,29.3,100.0,MISC
j5,tensorflow,1.0,Terminated,99110.0,99200.0,600.0,29.3,,
"""
PAI_INSTANCES = """\
j1,worker,n1,w1,i1,Terminated,100100.0,100500.0,m1
j1,worker,n2,w2,i1,Terminated,100150.0,100600.0,m2
j2,tensorflow,n3,w3,i2,Failed,99060.0,,m1
j2,tensorflow,n4,w4,i2,Failed,99100.0,99400.0,m1
"""


def attempt(start: str | None, end: str | None, *gpus: int) -> dict[str, Any]:
    detail = [{"ip": f"m{i}", "gpus": [f"gpu{g}" for g in range(n)]} for i, n in enumerate(gpus)]
    return {"start_time": start, "end_time": end, "detail": detail}


def philly_job(submitted: str | None, *attempts: dict[str, Any]) -> dict[str, Any]:
    return {
        "status": "Pass",
        "vc": "v",
        "jobid": "j",
        "attempts": list(attempts),
        "submitted_time": submitted,
        "user": "u1",
    }


PHILLY = [
    philly_job(
        "2017-10-07 01:11:39",
        attempt("2017-10-07 01:12:09", "2017-10-07 01:13:23", 8, 2),
        attempt("2017-10-07 01:13:30", "2017-10-07 01:14:00", 8),
    ),
    philly_job("2017-10-06 23:59:59", attempt("2017-10-07 00:00:00", "2017-10-08 00:00:00", 1)),
    philly_job("2017-10-07 02:00:00"),
    philly_job("2017-10-07 02:00:00", attempt("2017-10-07 02:00:00", "None", 1)),
    philly_job("2017-10-07 02:00:00", attempt("2017-10-07 02:00:00", "2017-10-07 01:00:00", 1)),
    philly_job(None, attempt("2017-10-07 02:00:00", "2017-10-07 03:00:00", 1)),
]


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def pai_folder(folder: Path, **changed: str) -> Path:
    tables = {"job": PAI_JOBS, "task": PAI_TASKS, "instance": PAI_INSTANCES, **changed}
    for name, text in tables.items():
        if text:
            write(folder / f"pai_{name}_table.csv", text)
    return folder


def jobs(log: JobLog) -> list[tuple[float, float, float, str]]:
    columns = (log.submit_s.tolist(), log.gpus.tolist(), log.duration_s.tolist(), log.user)
    return list(zip(*columns, strict=True))


def test_a_plain_log_keeps_its_times_and_is_put_in_order(tmp_path: Path) -> None:
    log = read_job_log(write(tmp_path / "jobs.csv", PLAIN))
    assert jobs(log) == [(60, 0.5, 0, "ann"), (90, 2, 30, "bob"), (3600, 1, 7.5, "")]
    assert log.source == "plain"


def test_a_gzipped_log_with_other_columns_reads_the_same(tmp_path: Path) -> None:
    wider = "\n".join(f"x,{line}" for line in PLAIN.splitlines())
    (tmp_path / "jobs.csv.gz").write_bytes(gzip.compress(wider.encode()))
    plain = read_job_log(write(tmp_path / "jobs.csv", PLAIN))
    assert jobs(read_job_log(tmp_path / "jobs.csv.gz")) == jobs(plain)


def test_helios_jobs_without_gpus_are_left_out(tmp_path: Path) -> None:
    log = read_job_log(write(tmp_path / "cluster_log.csv", HELIOS))
    evening = 18 * 3600 + 41 * 60 + 27
    assert jobs(log) == [(evening, 4, 249, "uA"), (86_401, 1, 0, "uC")]
    assert log.left_out == {"no GPU": 1}
    assert jobs(read_job_log(tmp_path)) == jobs(log)


def test_philly_jobs_have_the_gpus_of_their_first_attempt_and_the_time_of_all(
    tmp_path: Path,
) -> None:
    log = read_job_log(write(tmp_path / "cluster_job_log", json.dumps(PHILLY)))
    midnight = 24 * 3600
    assert jobs(log) == [
        (midnight - 1, 1, 86_400, "u1"),
        (midnight + 3600 + 11 * 60 + 39, 10, 74 + 30, "u1"),
    ]
    assert log.left_out == {"no GPU": 1, "no recorded run": 2, "not known when submitted": 1}
    assert jobs(read_job_log(tmp_path)) == jobs(log)


def test_pai_jobs_ask_for_all_their_tasks_and_run_as_long_as_their_instances(
    tmp_path: Path,
) -> None:
    log = read_job_log(pai_folder(tmp_path))
    # 99,000 s of Unix time are 11:30 on the second day in UTC+8.
    submitted = 11.5 * 3600
    assert jobs(log) == [(submitted, 1, 300, "bob"), (submitted + 1000, 1, 500, "ann")]
    assert log.left_out == {"no GPU": 1, "not known when submitted": 1, "no recorded run": 1}


def test_pai_without_its_instance_table_goes_by_tasks_and_jobs(tmp_path: Path) -> None:
    log = read_job_log(pai_folder(tmp_path, instance="") / "pai_job_table.csv")
    assert [(job[2], job[3]) for job in jobs(log)] == [(450, "bob"), (890, "ann")]


def test_a_pai_table_may_have_the_header_that_is_published_beside_it(tmp_path: Path) -> None:
    plain = jobs(read_job_log(pai_folder(tmp_path)))
    header = "job_name,inst_id,user,status,start_time,end_time\n"
    assert jobs(read_job_log(pai_folder(tmp_path, job=header + PAI_JOBS))) == plain


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PLAIN.replace("90,2", "90,two"), "line 2: gpus: 'two'; expected GPUs > 0"),
        (PLAIN.replace("60,0.5", "60,0"), "line 4: gpus: '0'; expected GPUs > 0"),
        (PLAIN.replace("90,2", ",2"), "line 2: submit_s: is missing; expected seconds >= 0"),
        (PLAIN.replace("90,2", "-90,2"), "line 2: submit_s: '-90'; expected seconds >= 0"),
        (PLAIN.replace("7.5", "inf"), "line 3: duration_s: 'inf'; expected seconds >= 0"),
        (PLAIN.replace("7.5", "nan"), "line 3: duration_s: 'nan'; expected seconds >= 0"),
        (PLAIN.replace("30,bob", "30,bob,5"), "line 2: has 5 fields; expected 4, as in line 1"),
        (PLAIN.replace("30,bob\n", "30,bob\n\n-1,1,1,x\n"), "line 4: submit_s: '-1'"),
        ("submit_s,gpus\n1,2\n", "line 1: has no column 'duration_s'; expected a CSV file with"),
        ("submit_s,gpus,duration_s,user\n", "has no jobs on GPUs; expected one at least"),
        (HELIOS.replace("2020-06-10 00:00:01,", "June,"), "line 4: submit_time: 'June'; expected"),
        (HELIOS.replace(",0,1\n", ",,1\n"), "line 4: duration: is missing; expected seconds >= 0"),
        (HELIOS.replace("vcX,4", "vcX,-4"), "line 2: gpu_num: '-4'; expected a number of GPUs"),
        ("time,price\n1,2\n", "is in no known format of job logs; expected Philly's"),
        ("", "is in no known format of job logs; expected Philly's"),
        ("[{]", "line 1: is not JSON"),
        ("{}", "is a JSON dict; expected a list of jobs"),
        ("[3]", "[0]: is a JSON int; expected an object with 'submitted_time'"),
        ('[{"submitted_time": "x"}]', "[0].submitted_time: 'x'; expected a time YYYY-MM-DD"),
        ('[{"submitted_time": "2017-10-07 01:11:39"}]', "[0].attempts: is missing; expected"),
        (
            json.dumps([philly_job("2017-10-07 01:11:39", attempt("noon", None, 1))]),
            "[0].attempts[0].start_time: 'noon'; expected a time YYYY-MM-DD HH:MM:SS",
        ),
        (
            json.dumps([philly_job("2017-10-07 01:11:39", {"detail": [{"gpus": 3}]})]),
            "[0].attempts[0].detail[0].gpus: is a JSON int; expected a list",
        ),
    ],
)
def test_what_is_malformed_is_named_with_file_and_place(
    text: str, message: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "jobs", text)
    with pytest.raises(InputError) as caught:
        read_job_log(path)
    assert str(caught.value).startswith(f"{path}: {message}")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"task": ""}, "has no pai_task_table.csv; expected pai_job_table.csv and"),
        (
            {"task": PAI_TASKS.replace("50.0,P100", "half,P100")},
            "pai_task_table.csv: line 2: plan_gpu: 'half'; expected a number",
        ),
        (
            {"job": PAI_JOBS.replace("j3,", ",")},
            "pai_job_table.csv: line 3: job_name: is missing; expected a text",
        ),
        (
            {"instance": PAI_INSTANCES.replace(",m1", "")},
            "pai_instance_table.csv: line 1: has 8 fields; expected 9: job_name, task_name",
        ),
    ],
)
def test_a_malformed_pai_table_is_named(
    changed: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as caught:
        read_job_log(pai_folder(tmp_path, **changed))
    assert message in str(caught.value)


def test_bytes_that_are_no_text_and_damaged_gzip_are_refused(tmp_path: Path) -> None:
    bad = tmp_path / "jobs.csv"
    bad.write_bytes(PLAIN.encode().replace(b"bob", b"b\xffb"))
    with pytest.raises(InputError, match=r"line 2: is not UTF-8 text"):
        read_job_log(bad)
    bad.write_bytes(gzip.compress(PLAIN.encode())[:-12])
    with pytest.raises(InputError, match="is damaged gzip"):
        read_job_log(bad)


def test_a_missing_file_and_a_folder_without_logs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_job_log(tmp_path / "nothing.csv")
    with pytest.raises(InputError, match="holds no known job log; expected Philly's"):
        read_job_log(tmp_path)


ROWS = st.lists(
    st.tuples(
        st.integers(0, 10**7).map(lambda tenths: tenths / 10),
        st.integers(1, 64),
        st.integers(0, 10**6),
        st.text("abc", max_size=3),
    ),
    min_size=1,
    max_size=30,
)


@pytest.mark.slow
@given(rows=ROWS)
def test_a_log_written_as_plain_csv_reads_back_in_order(
    rows: list[tuple[float, int, int, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    lines = [f"{submit},{gpus},{seconds},{user}" for submit, gpus, seconds, user in rows]
    path = tmp_path_factory.getbasetemp() / "roundtrip.csv"
    write(path, "\n".join(["submit_s,gpus,duration_s,user", *lines]))
    assert jobs(read_job_log(path)) == sorted(rows, key=lambda row: row[0])


@given(rows=ROWS, slot_seconds=st.sampled_from([60.0, 600.0, 7.0]))
def test_windows_of_a_day_hold_every_job_once(
    rows: list[tuple[float, int, int, str]], slot_seconds: float
) -> None:
    log = make_log("x", *zip(*rows, strict=True), from_midnight=False)
    windows = [log.window(day, 1) for day in range(log.num_days)]
    assert sum(len(window) for window in windows) == len(log)
    back = np.concatenate([w.submit_s + day * 86_400 for day, w in enumerate(windows)])
    assert back == pytest.approx(log.submit_s, abs=1e-6)
    slots = int(86_400 // slot_seconds) + 1
    for window in windows:
        assert window.counts(slots, slot_seconds).sum() == len(window)
        early = window.submit_s[window.submit_s < 10 * slot_seconds]
        assert window.counts(10, slot_seconds).sum() == len(early)


def test_a_window_beyond_the_log_is_refused() -> None:
    log = make_log("x", [0.0, 90_000.0], [1, 1], [1, 1], ["", ""])
    assert len(log.window(1, 1)) == 1
    with pytest.raises(InputError, match="a window within its 2 days"):
        log.window(1.5, 1)
    with pytest.raises(InputError, match=r"days: 0; expected a number of days > 0"):
        log.window(0, 0)
