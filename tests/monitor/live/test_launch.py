"""A watched program is the program as it was: output, exit code, signals; and what was recorded can be read."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from preflight.errors import UsageError
from preflight.monitor.collect.settings import Settings
from preflight.monitor.live.launch import HOOK, environment, resolve, run
from preflight.monitor.recording import why_nothing
from preflight.monitor.trace.folder import TraceFolder

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

PROGRAM = """
import os, sys, time
import torch
torch.manual_seed(0)
net = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(int(sys.argv[1])):
    optimizer.zero_grad()
    loss = net(torch.randn(8, 4)).pow(2).mean()
    loss.backward()
    optimizer.step()
print("loss", loss.item().hex(), [p for p in sys.path if "hook" in p], flush=True)
how = sys.argv[2]
if how == "exit":
    sys.exit(7)
if how == "raise":
    raise ValueError("on purpose")
if how == "load":
    try:
        torch.load("nowhere.pt")
    except FileNotFoundError as error:
        raise ValueError("no start") from error
if how == "warn":
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for epoch in range(2):
        schedule.step(epoch)
    schedule.step(3)
if how == "kill":
    time.sleep(0.6)
    os.kill(os.getpid(), 9)
if how == "wait":
    print("waiting", flush=True)
    time.sleep(60)
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("program") / "train.py"
    file.write_text(PROGRAM)
    return file


def start(script: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(script), *words]
    return subprocess.run(command, env=environment(Settings(str(folder))), capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("how", "error"), [("raise", "ValueError: on purpose"), ("load", "ValueError: no start")])
def test_output_and_exit_code_are_the_programs_own(script: Path, tmp_path: Path, how: str, error: str) -> None:
    plain = subprocess.run([sys.executable, str(script), "5", how], capture_output=True, text=True, check=False)
    watched = start(script, tmp_path, "5", how)
    assert (watched.returncode, watched.stdout, watched.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    [process] = _processes(tmp_path)
    assert process.end is not None
    assert process.end["how"] == "exception"
    assert process.end["error"] == error
    assert process.end["s"] == 5


def test_what_torch_warns_of_is_said_as_often_and_at_the_same_places(script: Path, tmp_path: Path) -> None:
    plain = subprocess.run([sys.executable, str(script), "5", "warn"], capture_output=True, text=True, check=False)
    assert plain.stderr.count("UserWarning: ") >= 2
    assert start(script, tmp_path, "5", "warn").stderr == plain.stderr


def test_a_killed_program_leaves_what_was_recorded(script: Path, tmp_path: Path) -> None:
    assert start(script, tmp_path, "5", "kill").returncode == -signal.SIGKILL
    [process] = _processes(tmp_path)
    assert process.end is None
    assert process.iteration == 4


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signals_reach_the_program_and_its_code_comes_back(
    script: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", _LAUNCHER, str(tmp_path), sys.executable, str(script), "2", "wait"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert child.stdout is not None
    while "waiting" not in (line := child.stdout.readline()):
        assert line or child.poll() is None
    time.sleep(0.2)
    child.send_signal(number)  # to the launcher alone
    assert f"returned {code}" in child.communicate(timeout=60)[0]


_LAUNCHER = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin with it ignored
from preflight.monitor.collect.settings import Settings
from preflight.monitor.live.launch import run
print("returned", run(sys.argv[2:], Settings(sys.argv[1]), lambda process: None))
"""


def test_what_the_keyboard_sends_comes_once(script: Path, tmp_path: Path) -> None:
    """Before a terminal, the whole group is interrupted: the launcher passes nothing on."""
    pty = pytest.importorskip("pty")
    command = [sys.executable, "-c", _LAUNCHER, str(tmp_path), sys.executable, "-c", _COUNTING]
    child, terminal = pty.fork()
    if child == 0:
        os.execve(sys.executable, command, {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    said = b""
    interrupted = False
    while not re.search(rb"returned \d+\s", said):  # the number may come in a further piece
        try:
            said += os.read(terminal, 4096)
        except OSError:
            break
        if b"waiting" in said and not interrupted:
            interrupted = True
            os.write(terminal, b"\x03")
    os.waitpid(child, 0)
    os.close(terminal)
    assert b"interrupted 1 times" in said
    assert b"returned 0" in said


_COUNTING = """
import signal, time
times = []
signal.signal(signal.SIGINT, lambda *_: times.append(1))
print("waiting", flush=True)
while not times:
    time.sleep(0.05)
time.sleep(1)
print("interrupted", len(times), "times", flush=True)
"""


def test_the_exit_code_of_a_program_is_returned(script: Path, tmp_path: Path) -> None:
    assert run([sys.executable, str(script), "1", "exit"], Settings(str(tmp_path)), lambda process: None) == 7


def test_a_program_without_torch_is_left_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; print(sys.modules.get('torch'), sys.meta_path[0].__class__.__name__)"]
    told = subprocess.run(command, env=environment(Settings(str(tmp_path))), capture_output=True, text=True, check=True)
    assert told.stdout.startswith("None")
    # That the hook was there is all that is written: a launcher says by it why nothing was recorded.
    assert [file.name for file in tmp_path.iterdir()] == ["arrivals.jsonl"]


def test_a_python_that_is_too_old_runs_as_ever_and_is_the_reason(tmp_path: Path) -> None:
    code = (
        "import runpy, sys; sys.version_info = (3, 8, 18, 'final', 0); import json, dataclasses\n"
        f"runpy.run_path({str(HOOK / 'sitecustomize.py')!r}); print('runs')"
    )
    settings = environment(Settings(str(tmp_path)))
    done = subprocess.run([sys.executable, "-S", "-c", code], env=settings, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("runs\n", "")
    assert why_nothing(tmp_path, ["python"]) == "Python 3.8 is older than 3.10"


def test_the_programs_own_sitecustomize_still_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.mine = 'here'\n")
    settings = environment(Settings(str(tmp_path)), {**os.environ, "PYTHONPATH": str(tmp_path)})
    told = subprocess.run(
        [sys.executable, "-c", "print(mine)"], env=settings, capture_output=True, text=True, check=True
    )
    assert told.stdout == "here\n"
    assert told.stderr == ""


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ([], "no program is given"),
        (["pyhton", "x.py"], "did you mean python"),
        (["python", "missing.py"], "missing.py"),
        (["notes/train.ipynb"], "jupyter nbconvert --to script notes/train.ipynb, then:"),
        (["python3", "train.ipynb"], "-- python train.py"),
    ],
)
def test_what_cannot_be_started_is_named(command: list[str], said: str) -> None:
    with pytest.raises(UsageError) as error:
        resolve(command)
    assert said in f"{error.value} {error.value.hint}"


def test_a_launcher_that_is_not_installed_here_is_not_its_own_correction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match="no program is called 'accelerate' here") as error:
        resolve(["accelerate", "launch", "train.py"])
    assert error.value.hint == "activate the environment that has accelerate, or give its path"


def _processes(folder: Path) -> list:  # type: ignore[type-arg]
    traces = TraceFolder(folder)
    for _ in traces.poll():
        pass
    traces.finish()
    return traces.processes
