"""``preflight monitor``: programs recorded, watched and checked, from the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from preflight.cli.main import main
from preflight.monitor.collect.settings import Settings
from preflight.monitor.follow import Follower
from preflight.monitor.recording import free_folder, why_nothing

from .conftest import Recorded
from .programs import NEVER_CLEARED, PLAIN, environment, preflight

pytestmark = pytest.mark.torch


def test_a_healthy_program_runs_as_it_does_alone(healthy_run: Recorded) -> None:
    pytest.importorskip("torch")
    alone = subprocess.run(
        [sys.executable, "train.py"], cwd=healthy_run.cwd, env=environment(), capture_output=True, text=True
    )
    assert healthy_run.done.returncode == alone.returncode == 0, healthy_run.done.stderr
    assert healthy_run.done.stdout == alone.stdout
    assert "preflight monitor: GO  20 steps" in healthy_run.done.stderr
    assert "alarm" not in healthy_run.done.stderr


def test_what_is_broken_is_told_once_with_its_line_and_decides_the_exit_code(broken_run: Recorded) -> None:
    said = broken_run.done.stderr
    assert broken_run.done.returncode == 1
    assert said.count("preflight monitor: alarm") == 1
    line = 1 + NEVER_CLEARED.splitlines().index("    optimizer.step()")
    assert f"train.py:{line}" in said
    assert "optimizer.step()" in said
    assert "since step 12" in said
    assert "0.weight" in said
    assert "hint: call optimizer.zero_grad()" in said
    assert "NO-GO  1 error" in said


def test_alarms_are_lines_of_json(broken_run: Recorded) -> None:
    lines = (broken_run.cwd / "alerts.jsonl").read_text().splitlines()
    assert len(lines) == 1
    alert = json.loads(lines[0])
    assert alert["schema"] == "preflight.alert/1"
    assert alert["violation"]["relation"] == "gradients-cleared"
    assert alert["violation"]["first_step"] == 12


def test_check_says_what_run_said(broken_run: Recorded) -> None:
    done = preflight("monitor", "check", "trace", "--format", "json", cwd=broken_run.cwd)
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert report["verdict"] == "NO-GO"
    [violation] = report["violations"]
    assert violation["first_step"] == 12
    assert violation["location"]["path"] == "train.py"
    assert violation["ranks"] == [0]
    assert report["watched"]["steps"] == 20
    assert any(series["name"] == "gradient norm" for series in report["watched"]["series"])
    again = preflight("monitor", "check", "trace", "--format", "json", cwd=broken_run.cwd)
    assert again.stdout == done.stdout


def test_the_page_of_a_recorded_run_says_the_same(broken_run: Recorded) -> None:
    from preflight.cli.ui_.feed import Feed
    from preflight.monitor.library_of import shipped

    feed = Feed(broken_run.trace, shipped())
    feed.look()
    assert feed.frame is not None
    told = {name: json.loads(section) for name, section in feed.frame.sections.items()}
    assert told["problem"] is None
    assert (told["run"]["state"], told["run"]["verdict"], told["run"]["over"]) == ("finished", "NO-GO", True)
    assert told["figures"]["step"] == 20
    assert told["figures"]["devices"] is None
    [alarm] = told["alarms"]["shown"]
    assert alarm["step"] == 12
    assert {key.chart for key in feed.frame.curves} >= {"loss", "learning rate", "gradient norm", "step time"}
    if sys.platform.startswith("linux"):
        assert told["figures"]["resident"] > 10 << 20


def test_run_json_says_what_was_run(healthy_run: Recorded) -> None:
    run = json.loads((healthy_run.trace / "run.json").read_text())
    assert run["program"] == "train.py"
    assert run["arguments"][1] == "train.py"
    assert run["exit_code"] == 0
    assert run["world_size"] == 1
    assert run["versions"]["torch"]
    assert run["ended"] >= run["started"]
    assert run["recorded"]["detail_first"] == Settings("").detail_first


def test_a_trace_that_is_there_is_refused_without_force(healthy_run: Recorded) -> None:
    before = sorted(path.name for path in healthy_run.trace.iterdir())
    done = preflight("monitor", "collect", "-o", "trace", "--", sys.executable, "train.py", cwd=healthy_run.cwd)
    assert done.returncode == 2
    assert "trace holds a trace already" in done.stderr
    assert "--force" in done.stderr
    assert sorted(path.name for path in healthy_run.trace.iterdir()) == before


@pytest.mark.parametrize(("ending", "code"), [("raise SystemExit(7)", 7), ("import os; os._exit(3)", 3)])
def test_the_exit_code_of_the_program_is_kept(tmp_path: Path, ending: str, code: int) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(NEVER_CLEARED + ending + "\n")
    done = preflight("monitor", "run", "--", sys.executable, "train.py", cwd=tmp_path)
    assert done.returncode == code
    assert "alarm 1" in done.stderr
    assert (tmp_path / ".preflight" / "monitor" / "train-1" / "run.json").exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_what_leaves_by_os_exit_has_an_end_in_its_trace_also_in_a_child(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(
        f"import os\npid = os.fork()\n{NEVER_CLEARED}\nif pid:\n    os.waitpid(pid, 0)\nos._exit(status=3)\n"
    )
    done = preflight("monitor", "run", "-o", "t", "--", sys.executable, "train.py", cwd=tmp_path)
    assert done.returncode == 3
    assert "NO-GO" in done.stderr
    assert "stopped without a word" not in done.stderr
    preflight("monitor", "export", "t", "-o", "rows", cwd=tmp_path)
    ends = [json.loads(line) for line in (tmp_path / "rows" / "end.jsonl").read_text().splitlines()]
    assert [(one["how"], one["code"], one["error"]) for one in ends] == [("exit", 3, None)] * 2
    assert "2 trainings were recorded, each judged as one: 20, 20 steps" in done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("leave", ["os._exit(0)", "raise SystemExit"])
def test_a_child_that_records_nothing_leaves_no_trace(tmp_path: Path, leave: str) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(
        f"{NEVER_CLEARED}\nimport os\npid = os.fork()\nif not pid:\n    {leave}\nos.waitpid(pid, 0)\n"
    )
    preflight("monitor", "collect", "-o", "t", "--", sys.executable, "train.py", cwd=tmp_path)
    preflight("monitor", "export", "t", "-o", "rows", cwd=tmp_path)
    begun = [json.loads(line) for line in (tmp_path / "rows" / "begin.jsonl").read_text().splitlines()]
    assert len({one["pid"] for one in begun}) == 1


def test_an_exception_that_ends_the_program_is_told(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(NEVER_CLEARED + "raise ValueError('no more')\n")
    done = preflight("monitor", "run", "-o", "a trace", "--", sys.executable, "train.py", cwd=tmp_path)
    assert "the trace is in a trace; preflight monitor check 'a trace' reports on it" in done.stderr
    assert done.returncode == 1
    assert "preflight monitor: rank 0 ended with ValueError: no more in iteration" in done.stderr


def test_an_exception_is_told_that_another_hook_shows(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    hook = "import sys\nsys.excepthook = lambda kind, value, trace: print('its own hook')\n"
    (tmp_path / "train.py").write_text(f"{NEVER_CLEARED}{hook}raise ValueError('no more')\n")
    done = preflight("monitor", "run", "-o", "t", "--", sys.executable, "train.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "its own hook" in done.stdout
    assert "preflight monitor: rank 0 ended with ValueError: no more in iteration" in done.stderr


@pytest.mark.parametrize("ending", ["raise ValueError('no more')", "ctx = 1 / 0", "raise SystemExit(3)"])
def test_an_exception_is_told_that_ends_a_child_of_multiprocessing(tmp_path: Path, ending: str) -> None:
    pytest.importorskip("torch")
    body = "".join(f"    {line}\n" for line in f"{NEVER_CLEARED}{ending}".splitlines())
    started = (
        "    child = multiprocessing.get_context('spawn').Process(target=work)\n    child.start()\n    child.join()\n"
    )
    (tmp_path / "train.py").write_text(
        f"import multiprocessing\ndef work():\n{body}\nif __name__ == '__main__':\n{started}    print(child.exitcode)\n"
    )
    done = preflight("monitor", "run", "-o", "t", "--", sys.executable, "train.py", cwd=tmp_path)
    assert done.stdout.split()[-1] == ("3" if "Exit" in ending else "1")
    told = {"raise ValueError('no more')": "ValueError: no more", "ctx = 1 / 0": "ZeroDivisionError: division by zero"}
    assert ("rank 0 ended with" in done.stderr) == (ending in told)
    assert f"rank 0 ended with {told.get(ending)} in iteration" in done.stderr or ending not in told


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no other program in the same process")
def test_a_program_that_starts_itself_again_has_an_end_in_its_trace(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    again = (
        "import contextlib, os, sys, torch\n"
        "with contextlib.suppress(OSError):\n    os.execvp('nowhere-to-be-found', ['x'])\n"
        f"{NEVER_CLEARED}"
        "if sys.argv[1:] != ['again']:\n    os.execvp(sys.executable, [sys.executable, 'train.py', 'again'])\n"
    )
    (tmp_path / "train.py").write_text(again)
    done = preflight("monitor", "run", "-o", "t", "--", sys.executable, "train.py", cwd=tmp_path)
    assert "2 trainings were recorded, each judged as one: 20, 20 steps" in done.stderr
    assert "stopped without a word" not in done.stderr


def test_a_disk_that_is_full_at_the_end_costs_the_program_nothing(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    taken = "\nimport pathlib\nrun = pathlib.Path('t/run.json')\nrun.unlink()\nrun.mkdir()\n"  # nothing can be written there
    (tmp_path / "train.py").write_text(NEVER_CLEARED + taken + "raise SystemExit(7)\n")
    done = preflight("monitor", "run", "-o", "t", "--", sys.executable, "train.py", cwd=tmp_path)
    assert done.returncode == 7
    assert "how the program ended is not in the trace: " in done.stderr
    assert "alarm 1" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["run", "collect"])
def test_a_folder_that_is_removed_meanwhile_costs_the_program_nothing(tmp_path: Path, command: str) -> None:
    pytest.importorskip("torch")
    removed = "\nimport shutil, time\nshutil.rmtree('t')\ntime.sleep(1)\nprint('to the end')\n"  # looked at meanwhile
    (tmp_path / "train.py").write_text(NEVER_CLEARED + removed + "raise SystemExit(7)\n")
    done = preflight("monitor", command, "-o", "t", "--", sys.executable, "train.py", cwd=tmp_path)
    assert done.returncode == 7
    assert "to the end" in done.stdout
    assert "nothing was recorded: t was removed or renamed while the program ran" in done.stderr
    assert "internal error" not in done.stderr


def test_an_error_of_those_who_judge_costs_the_program_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise RuntimeError("nobody foresaw this")

    monkeypatch.setattr(Follower, "take", failing)
    monkeypatch.chdir(tmp_path)
    program = [sys.executable, "-c", "import time; time.sleep(1); print('to the end'); raise SystemExit(7)"]
    assert main(["monitor", "run", "-o", "t", "--", *program]) == 7
    out, said = capfd.readouterr()
    assert "to the end" in out
    assert "nothing is judged from here on: internal error: RuntimeError: nobody foresaw this; please report" in said


def test_it_is_said_what_is_moved_by_steps_that_are_not_seen(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    by_hand = "for one in model.parameters():\n        one.data -= 0.01 * one.grad"
    (tmp_path / "train.py").write_text(PLAIN.replace("optimizer.step()", by_hand))
    done = preflight("monitor", "run", "-o", "trace", "--", sys.executable, "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "alarm" not in done.stderr
    assert "what optimizer0 holds has changed, and no step of it was recorded" in " ".join(done.stderr.split())


def test_a_signal_reaches_the_program_and_what_was_recorded_is_judged(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(NEVER_CLEARED + "import time\ntime.sleep(60)\n")
    program = "import sys; from preflight.cli.main import main; sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "monitor", "run", "-o", "t", "--", sys.executable, "train.py"],
        cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("preflight monitor: alarm 1"):
            break
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert "NO-GO  1 error" in said
    assert "rank 0 stopped without a word: the program was ended by SIGTERM; the last iteration" in said


def test_watch_says_what_check_says(broken_run: Recorded, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        NEVER_CLEARED.replace("    print(", "    __import__('time').sleep(0.05)\n    print(")
    )
    program = "import sys; from preflight.cli.main import main; sys.exit(main())"
    collecting = subprocess.Popen(
        [sys.executable, "-c", program, "monitor", "collect", "-o", "t", "--", sys.executable, "train.py"],
        cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not (tmp_path / "t" / "run.json").exists():
        assert collecting.poll() is None
        time.sleep(0.05)
    watched = preflight("monitor", "watch", "t", "--format", "json", cwd=tmp_path)
    collecting.communicate(timeout=60)
    checked = preflight("monitor", "check", "t", "--format", "json", cwd=tmp_path)
    assert watched.returncode == checked.returncode == 1
    assert watched.stderr.count("preflight monitor: alarm") == 1
    assert json.loads(watched.stdout)["violations"] == json.loads(checked.stdout)["violations"]


def test_watch_goes_on_where_the_launcher_was_killed_and_the_program_was_not(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import os, time\nwhile os.getppid() == int(os.environ['PARENT']):\n    time.sleep(0.05)\n"
        f"time.sleep(2)\n{NEVER_CLEARED}"
    )
    program = (
        "import os, sys; os.environ['PARENT'] = str(os.getpid())\nfrom preflight.cli.main import main; sys.exit(main())"
    )
    collecting = subprocess.Popen(
        [sys.executable, "-c", program, "monitor", "collect", "-o", "t", "--", sys.executable, "train.py"],
        cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while not (tmp_path / "t" / "arrivals.jsonl").exists():
        assert collecting.poll() is None
        time.sleep(0.05)
    collecting.kill()
    collecting.wait()
    watched = preflight("monitor", "watch", "t", cwd=tmp_path)
    assert watched.returncode == 1, watched.stderr
    assert "preflight monitor: alarm 1" in watched.stderr


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("-S", "-c", "print(1)"), "Python was started with -S"),
        (("-I", "-c", "print(1)"), "Python was started with -I"),
        (("-c", "print(1)"), "the program did not import PyTorch"),
    ],
)
def test_it_is_said_why_nothing_was_recorded(tmp_path: Path, command: tuple[str, ...], reason: str) -> None:
    done = preflight("monitor", "run", "-o", "t", "--", sys.executable, *command, cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout == "1\n"
    assert f"nothing was recorded: {reason}" in done.stderr


def test_a_torch_that_is_too_old_is_the_reason(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("__version__ = '2.1.0'\n")
    done = preflight("monitor", "run", "-o", "t", "--", sys.executable, "-c", "import torch", cwd=tmp_path)
    assert done.returncode == 0
    assert "PyTorch 2.1.0 is older than 2.4" in done.stderr
    assert "PyTorch 2.1.0 is older than 2.4" in (why_nothing(tmp_path / "t", ["python"]) or "")


def test_a_program_that_ends_while_torch_is_imported_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import os\nos.kill(os.getpid(), 9)\n")
    done = preflight("monitor", "run", "-o", "t", "--", sys.executable, "-c", "import torch", cwd=tmp_path)
    assert done.returncode == 128 + 9
    assert "the program ended while PyTorch was being imported" in done.stderr


def test_a_torch_that_cannot_be_imported_is_the_reason(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('libtorch.so: no such file')\n")
    done = preflight("monitor", "run", "-o", "t", "--", sys.executable, "-c", "import torch", cwd=tmp_path)
    assert done.returncode == 1
    assert "importing PyTorch failed: ImportError: libtorch.so: no such file" in done.stderr


def test_asking_whether_torch_could_be_found_is_no_import(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("__version__ = '2.1.0'\n")
    code = "import importlib.util as u; u.find_spec('torch'); import torch"
    done = preflight("monitor", "run", "-o", "t", "--", sys.executable, "-c", code, cwd=tmp_path)
    assert "PyTorch 2.1.0 is older than 2.4" in done.stderr


def test_folders_are_named_after_the_program(tmp_path: Path) -> None:
    assert free_folder(["python", "a/train.py", "x"], tmp_path).name == "train-1"
    (tmp_path / "train-1").mkdir()
    assert free_folder(["python", "a/train.py"], tmp_path).name == "train-2"
    assert free_folder(["torchrun", "-m", "pkg.main"], tmp_path).name.startswith("pkg")


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (("run",), "no program is given", "put it after --"),
        (("run", "python", "train.py"), "has to stand after --", "run -- python train.py"),
        (("run", "-o", "out"), "no program is given", "put it after --"),
        (("show", "trace"), "trace is a trace, not a file of invariants", "preflight monitor check trace"),
        (("run", "--", "pyhton", "train.py"), "no program is called 'pyhton'", "did you mean python"),
        (("run", "--", sys.executable, "nix.py"), "there is no file 'nix.py'", ""),
        (("run", "--", sys.executable, "trian.py"), "there is no file 'trian.py'", "did you mean train.py?"),
        (("check", "nowhere"), "nowhere does not exist", ""),
        (("check", "n" * 300), "n: this name is too long for a file", ""),
        (("check", "."), "holds no trace", "did you mean trace, the newest in it?"),
        (("run", "--budget", "lots", "--", "python", "x.py"), "'lots' is no number", "preflight monitor run --help"),
        (("check",), "missing argument", ""),
        (("watch", "file.txt"), "is a file, and a trace is a folder", ""),
        (("chek", "."), "has no command 'chek'", "did you mean check?"),
        (("check", ".", "--invariants", "lernt.jsonl"), "lernt.jsonl does not exist", "did you mean learnt.jsonl?"),
        (("check", ".", "--invariants", "file.txt"), "file.txt is not an invariants file: line 1", "each line is one"),
        (("run", "--webhook", "nowhere", "--", sys.executable, "-c", "1"), "--webhook nowhere: is no address", "http"),
    ],
)
def test_bad_input_gets_one_clear_error(tmp_path: Path, arguments: tuple[str, ...], message: str, hint: str) -> None:
    (tmp_path / "file.txt").write_text("not an invariant\n")
    (tmp_path / "learnt.jsonl").write_text("")
    (tmp_path / "train.py").write_text("")
    (tmp_path / "trace").mkdir()
    (tmp_path / "trace" / "run.json").write_text("{}")
    done = preflight("monitor", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert hint in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / ".preflight").exists()
