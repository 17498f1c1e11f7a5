"""What a run goes on after is no failure, and what it does not go on after is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose

SLURM = "slurmstepd: error: *** STEP 44.0 ON nid12 CANCELLED AT 2024-03-01T00:00:20 DUE to SIGNAL Terminated ***\n"
WATCHING = "Watching the metadata server for a host maintenance event every 10 s\n"
NEMO = (
    "[NeMo E 2023-01-18 07:39:42 exp_manager:423] You are running multi-node training without SLURM handling the processes. "
    "Please note that this is not tested in NeMo and could result in errors.\n"
)
LINKER = "collect2: error: ld returned 1 exit status\n"
RCCL = "n1:12:34 [0] /rccl/src/init.cc:123 NCCL WARN "
COMPILER = "W0603 12:00:00.123456 140 torch/_dynamo/convert_frame.py:357] [0/0] "


def steps(first: int, last: int, *, timed: bool = True) -> str:
    times = [f"2024-03-01 00:{number // 60:02d}:{number % 60:02d} " if timed else "" for number in range(first, last)]
    return "".join(f"{time}step {first + at} loss {3 - at / 1000:.3f} grad_norm 1.0\n" for at, time in enumerate(times))


def told(folder: Path, text: str) -> tuple[str, str]:
    (folder / "run.log").write_text(text)
    incident = diagnose(folder).incident
    assert incident is not None
    return incident.state, incident.category


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (steps(0, 5) + WATCHING + steps(5, 94), ("running", "none")),
        (steps(0, 20) + SLURM + steps(20, 90), ("running", "none")),
        (steps(0, 20, timed=False) + SLURM + steps(20, 90, timed=False), ("running", "none")),
        (steps(0, 20) + SLURM + steps(20, 45), ("crashed", "preemption")),
        (steps(0, 20, timed=False) + SLURM + steps(20, 25, timed=False), ("crashed", "preemption")),
    ],
)
def test_what_a_scheduler_says_counts_unless_many_steps_follow(
    tmp_path: Path, text: str, expected: tuple[str, str]
) -> None:
    assert told(tmp_path, text) == expected


@pytest.mark.parametrize(
    "text",
    [
        NEMO + "Epoch 0 begins\n",
        "/usr/bin/ld: cannot find -laio: No such file or directory\n" + LINKER,
        "/usr/bin/ld: cannot find -lcufile\n" + LINKER + "Loading the model\n",
        RCCL + 'Missing "iommu=pt" from kernel command line which can lead to system instablity or hang!\n',
        "/env/joblib/_multiprocessing_helpers.py:46: UserWarning: [Errno 28] No space left on device.  joblib will operate "
        "in serial mode\nLoading the model\n",
        RCCL + "Something of the settings is not as advised\n",
    ],
)
def test_a_word_of_caution_is_no_failure(tmp_path: Path, text: str) -> None:
    assert told(tmp_path, text)[0] != "crashed"


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("g++ -shared a.o\n" + LINKER, "environment"),
        ("/usr/bin/ld: cannot find -laio\n" + LINKER + "ninja: build stopped: subcommand failed.\n", "environment"),
        ("OSError: [Errno 28] No space left on device: job_17/ckpt.pt\n", "checkpoint"),
        ("write failed: No space left on device. just then\n", "checkpoint"),
        (RCCL + "Call to ibv_something failed with error 22\n", "network"),
    ],
)
def test_what_resembles_it_is_one(tmp_path: Path, text: str, category: str) -> None:
    assert told(tmp_path, text) == ("crashed", category)


@pytest.mark.parametrize(("first", "expected"), [(0, True), (4, False)])
def test_ranks_that_two_tasks_announce_make_a_caution_the_cause(tmp_path: Path, first: int, expected: bool) -> None:
    announced = "{}: Initializing distributed: GLOBAL_RANK: {}, MEMBER: {}/8\n"
    lines = [
        announced.format(task, rank, rank + 1)
        for task, begin in ((0, 0), (1, first))
        for rank in range(begin, begin + 4)
    ]
    (tmp_path / "run.log").write_text(f"0: {NEMO}" + "".join(lines))
    incident = diagnose(tmp_path).incident
    assert incident is not None
    assert (incident.category == "environment") is expected


def test_the_compiler_goes_on_after_what_its_logger_tells(tmp_path: Path) -> None:
    lines = (
        "WON'T CONVERT forward train.py line 3",
        "due to:",
        "Traceback (most recent call last):",
        '  File "/env/torch/_dynamo/variables/base.py", line 3, in call_function',
        "    raise Unsupported(message)",
        "torch._dynamo.exc.Unsupported: call_function X",
    )
    assert told(tmp_path, "".join(f"{COMPILER}{line}\n" for line in lines) + "ok\n")[0] != "crashed"


def test_the_one_that_a_time_limit_did_not_stop_is_not_accused(tmp_path: Path) -> None:
    limit = "slurmstepd: error: *** STEP 44.0 ON nid12 CANCELLED AT 2024-03-01T00:00:20 DUE TO TIME LIMIT ***\n"
    ranks = "".join(f"{rank}: step {number} loss 2.5\n" for number in range(3) for rank in range(8))
    (tmp_path / "run.log").write_text(ranks + limit + "srun: error: nid12: tasks 0-4,6-7: Terminated\n")
    incident = diagnose(tmp_path).incident
    assert incident is not None
    assert (incident.category, incident.culprit.ranks) == ("preemption", ())
    assert not any(suspect.reasons for suspect in incident.culprit.suspects)


LAUNCHER = """
title = "A launcher counts for itself"
category = "environment"
role = "benign"
literals = ["LAB: no scheduler"]
root_when = "ranks-given-twice"
sources = ["the laboratory's own launcher"]
match = ["LAB: no scheduler"]
no_match = ["LAB: scheduler"]
"""
GREETING = r"""
title = "A process of the launcher greets"
category = "none"
role = "benign"
literals = ["LAB: rank "]
regex = 'LAB: rank (?P<given>\d+)'
fields = { given = "int" }
announces = "given"
sources = ["the laboratory's own launcher"]
match = ["LAB: rank 3"]
no_match = ["LAB: rank unset"]
"""
NOTICE = """
title = "The laboratory takes the machine back"
category = "preemption"
role = "root"
literals = ["LAB: machine is taken back"]
sources = ["the laboratory's own scheduler"]
match = ["LAB: machine is taken back"]
no_match = ["LAB: machine is given"]
"""


def own(folder: Path, **files: str) -> Path:
    (folder / "signatures" / "lab").mkdir(parents=True)
    for name, text in files.items():
        (folder / "signatures" / "lab" / f"{name}.toml").write_text(text)
    return folder


@pytest.mark.parametrize(("first", "expected"), [(0, True), (4, False)])
def test_a_signature_of_ones_own_is_proven_by_the_ranks_that_are_announced(
    tmp_path: Path, first: int, expected: bool
) -> None:
    catalog = own(tmp_path / "catalog", launcher=LAUNCHER, greeting=GREETING)
    ranks = [(task, rank) for task, begin in ((0, 0), (1, first)) for rank in range(begin, begin + 4)]
    log = tmp_path / "run.log"
    log.write_text("0: LAB: no scheduler\n" + "".join(f"{task}: LAB: rank {rank}\n" for task, rank in ranks))
    incident = diagnose(log, signatures=[str(catalog)]).incident
    assert incident is not None
    assert (incident.category == "environment") is expected


@pytest.mark.parametrize(("grace", "state"), [("grace = 200", "crashed"), ("", "running")])
def test_a_notice_of_ones_own_says_how_long_a_run_goes_on_behind_it(tmp_path: Path, grace: str, state: str) -> None:
    catalog = own(tmp_path / "catalog", notice=NOTICE.replace("sources", f"{grace}\nsources"))
    log = tmp_path / "run.log"
    log.write_text(steps(0, 20) + "2024-03-01 00:00:20 LAB: machine is taken back\n" + steps(20, 120))
    incident = diagnose(log, signatures=[str(catalog)]).incident
    assert incident is not None
    assert incident.state == state


def test_what_a_library_does_without_is_not_what_failed(tmp_path: Path) -> None:
    warned = "typing.py:86: UserWarning: An issue occurred while importing 'torch-scatter'. Disabling its usage. Stacktrace: /env/_scatter_cuda.so: undefined symbol: _ZN3c10\n"
    raised = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\nTypeError: expected Tensor as element 0 in argument 0\n'
    assert told(tmp_path, warned + raised) == ("crashed", "usercode")


def test_storage_that_goes_away_under_a_model_is_the_checkpoints(tmp_path: Path) -> None:
    frames = '  File "/mnt/train.py", line 395, in <module>\n    {}(path)\n  File "/env/site-packages/h5py/_hl/files.py", line 241, in make_fid\n    fid = h5f.create(name)\n'
    end = "OSError: [Errno 116] Unable to create file (error message = 'Stale file handle')\n"
    text = "Traceback (most recent call last):\n" + frames + end
    assert told(tmp_path, text.format("model.save"))[1] == "checkpoint"
    assert told(tmp_path, text.format("read_samples"))[1] == "data"
