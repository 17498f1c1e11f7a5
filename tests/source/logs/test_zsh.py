"""Ends that zsh tells in words of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.source.logs.endings import ends
from preflight.vocabulary.log import Who

_TOLD = {
    "[1]    4242 bus error  python3 train.py": (4242, -7),
    "[1]  + 4242 killed     python3 train.py --epochs 3": (4242, -9),
    "[2]  - 4242 segmentation fault (core dumped)  python3 run.py": (4242, -11),
    "[1]    4242 abort      python3 train.py": (4242, -6),
    "[1]    4242 illegal hardware instruction  python3 train.py": (4242, -4),
    "[3]  + 4242 terminated  python3 train.py": (4242, -15),
    "[1]  + 4242 killed     CUDA_VISIBLE_DEVICES=0,1 nohup /opt/env/bin/torchrun train.py": (4242, -9),
    "[1]  + 4242 killed     ./run.sh": (4242, -9),
    "[1]  + 4242 killed     python train.py": (4242, -9),
    "zsh: killed     ./fit --epochs 3": (None, -9),
    "zsh: bus error  python3 train.py": (None, -7),
    "zsh: abort      python3 train.py": (None, -6),
    "zsh: trace trap  python3 train.py": (None, -5),
}
_OF_NOBODY = [
    "[1]  + 4242 running    python3 train.py",
    "[1]  + 4242 done       python3 train.py",
    "[1]  + 4242 suspended  python3 train.py",
    "[10] 4242 killed by the referee",
    "zsh: command not found: python",
    "[1] 0.25 bus error rate  per million",
    "[2]  - 4243 terminated  tensorboard --logdir runs",
    "[2]  - 4243 hangup     ssh -N -L 6006:localhost:6006 login",
    "killed  python train.py",
]


@pytest.mark.parametrize("line", _TOLD)
def test_zsh_tells_what_a_program_died_of(line: str) -> None:
    end = ends(line)
    assert end is not None
    pid, code = _TOLD[line]
    assert (end.about, end.code, end.teller) == ((Who(pid=pid),), code, "shell")


@pytest.mark.parametrize("line", _OF_NOBODY)
def test_what_zsh_says_of_others_is_no_end(line: str) -> None:
    assert ends(line) is None


def test_a_run_that_such_a_line_follows_is_no_run_that_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    steps = "".join(f"step {step} loss {3 - step / 20:.3f}\n" for step in range(20))
    log.write_text(f"{steps}[1]    4242 bus error  python3 train.py\n", encoding="utf-8")
    incident = diagnose(str(log)).incident
    assert incident is not None
    assert (incident.state, incident.category) == ("crashed", "environment")
