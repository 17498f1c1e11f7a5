"""Tests that are run: deadlines, what is left behind, the same failure, what is kept."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from preflight.errors import UsageError
from preflight.investigate.bisect.failure import failure_of, infra_of, matches
from preflight.investigate.bisect.outcome import Budget
from preflight.investigate.bisect.runner import RESULTS, Runner, Trial, key_of
from preflight.investigate.bisect.running import Launch, run
from preflight.investigate.bisect.search import find_breaking_point

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")


def python(code: str, *words: str) -> Launch:
    return Launch(argv=(sys.executable, "-c", code, *words))


def test_a_program_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time, signal\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "sleep = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        "own = subprocess.Popen(sleep)\n"
        "away = subprocess.Popen(sleep, start_new_session=True)\n"
        "print(own.pid, away.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    log = tmp_path / "log"
    began = time.monotonic()
    ended = run(python(code), str(log), 2.0)
    assert ended.code is None
    assert time.monotonic() - began < 60
    pids = [int(word) for word in log.read_text().split()]
    assert len(pids) == 2
    for pid in pids if sys.platform == "linux" else pids[:1]:
        assert not _alive(pid)


def _alive(pid: int) -> bool:
    for _ in range(100):
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return False
        except OSError:
            return False
        time.sleep(0.05)
    return True


def test_a_child_that_outlives_its_parent_does_not_hold_up_the_search(tmp_path: Path) -> None:
    code = "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    assert run(python(code), str(tmp_path / "log"), 60.0).code == 0


def test_a_program_that_is_not_there_is_misuse(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no program"):
        run(Launch(argv=("no-such-program-anywhere",)), str(tmp_path / "log"), 1.0)


def _log(tmp_path: Path, text: str) -> str:
    path = tmp_path / "one.log"
    path.write_text(text)
    return str(path)


def test_failures_bear_names_that_do_not_depend_on_numbers(tmp_path: Path) -> None:
    one = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\nValueError: size 17 at 0x7f00 is wrong\n'
    other = one.replace("17", "18").replace("0x7f00", "0x8e11")
    first = failure_of(_log(tmp_path, one), 1)
    assert first[0] == failure_of(_log(tmp_path, other), 1)[0] == "ValueError: size N at N is wrong"
    assert first[1] == "ValueError: size 17 at 0x7f00 is wrong"
    memory = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB\n"
    assert failure_of(_log(tmp_path, memory), 1)[0].startswith("oom.")
    alone = failure_of(_log(tmp_path, "starting\nstorage.QuotaError: 17 of 16 used\n"), 1)
    assert alone == ("storage.QuotaError: N of N used", "storage.QuotaError: 17 of 16 used")
    assert failure_of(_log(tmp_path, ""), -9)[0] == "signal SIGKILL"
    assert failure_of(_log(tmp_path, "what\n"), 7) == ("exit code 7", "what")
    assert failure_of(_log(tmp_path, ""), None)[0] == "timeout"
    limit = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***\n"
    assert failure_of(_log(tmp_path, limit), 1)[0] == "timeout"


def test_what_a_launcher_says_is_not_a_failure_of_the_program(tmp_path: Path) -> None:
    assert infra_of(_log(tmp_path, "x\nsrun: error: Unable to create step for job 7\ny\n"), 1) == (
        "srun: error: Unable to create step for job 7"
    )
    assert infra_of(_log(tmp_path, "fine\n"), 125) == "exit code 125"
    assert infra_of(_log(tmp_path, "fine\n"), 1) is None


def test_a_failure_is_named_by_name_or_expression(tmp_path: Path) -> None:
    log = _log(tmp_path, "boom 12\n")
    assert matches("any", "exit code 3", log)
    assert matches("exit code 3", "exit code 3", log)
    assert matches(r"/boom \d+/", "exit code 3", log)
    assert not matches("exit code 4", "exit code 3", log)


PROGRAM = """\
import sys, time
value = int(sys.argv[1])
if value == 5: time.sleep(600)
if value == 6: raise KeyError("other")
if value >= 8: raise ValueError(f"size {value}")
"""


@pytest.fixture
def runner(tmp_path: Path) -> Any:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)

    def make(value: int) -> Trial:
        return Trial(name=str(value), launch=Launch(argv=(sys.executable, str(script), str(value))), gpus=4)

    def build(**more: Any) -> Runner:
        return Runner(make, str(tmp_path / "state"), **{"timeout": 20.0, **more})

    return build


def test_only_the_same_failure_counts(runner: Any) -> None:
    one = runner()
    assert [one.ask(value).kind for value in (9, 8, 6, 1)] == ["fail", "fail", "other-fail", "pass"]
    assert one.wanted == "ValueError: size N"
    assert runner(timeout=1.5, fresh=True, wanted="ValueError: size N").ask(5).kind == "timeout"
    assert runner(timeout=1.5, fresh=True).ask(5).kind == "fail"  # a hang may be what is looked for
    assert runner(fresh=True, wanted="any").ask(6).kind == "fail"


def test_an_interrupted_search_goes_on_from_what_is_kept(runner: Any, tmp_path: Path) -> None:
    first = runner()
    found = find_breaking_point([1, 2, 3, 4, 7, 8, 9, 10], first.ask)
    assert (found.works, found.fails) == (7, 8)
    assert first.ran == found.tests
    second = runner()
    again = find_breaking_point([1, 2, 3, 4, 7, 8, 9, 10], second.ask)
    assert (again.works, again.fails, second.ran, second.spent) == (7, 8, 0, 0.0)
    with open(tmp_path / "state" / RESULTS, "a", encoding="utf-8") as file:
        file.write('{"key": "cut o')
    assert runner().ask(10).cached
    (tmp_path / "program.py").write_text(PROGRAM + "\n# changed\n")
    assert not runner().ask(10).cached


def test_what_was_not_started_properly_is_tried_again_and_not_kept(tmp_path: Path) -> None:
    counter = tmp_path / "count"
    script = tmp_path / "flaky.sh"
    script.write_text(
        f'n=$(cat "{counter}" 2>/dev/null || echo 0); echo $((n+1)) > "{counter}"\n'
        '[ "$n" -ge 2 ] && exit 0; echo "srun: error: Unable to create step"; exit 1\n'
    )
    test = Trial(name="x", launch=Launch(argv=("sh", str(script))))
    once = Runner(lambda value: test, str(tmp_path / "s1"), timeout=20, retries=1)
    assert once.ask(1).kind == "infra"
    assert not (tmp_path / "s1" / RESULTS).exists()
    counter.unlink()
    assert Runner(lambda value: test, str(tmp_path / "s2"), timeout=20, retries=2).ask(1).kind == "pass"


def test_a_budget_is_not_exceeded(runner: Any) -> None:
    # 4 GPUs x 20 s = 0.0222 GPU-hours at most for each test.
    one = runner(budget=0.03, timeout=20.0)
    one.ask(1)
    one.spent = 0.01
    with pytest.raises(Budget, match=r"0\.03 GPU-hours"):
        one.ask(2)


def test_a_key_holds_everything_that_a_test_depends_on(tmp_path: Path) -> None:
    script = tmp_path / "a.sh"
    script.write_text("exit 0")
    base = Trial(name="a", launch=Launch(argv=("sh", str(script))))
    keys = {key_of(base), key_of(Trial(name="a", launch=Launch(argv=("sh", str(script)), environment={"A": "1"}))),
            key_of(Trial(name="a", launch=Launch(argv=("sh", str(script)), files={"x": "1"}))),
            key_of(Trial(name="a", launch=base.launch, salt="commit"))}  # fmt: skip
    script.write_text("exit 1")
    keys.add(key_of(base))
    assert len(keys) == 5
    assert key_of(base) == key_of(Trial(name="other name", launch=base.launch, gpus=8))
