"""Whose options argparse refuses: those of a script, or those of what starts it."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.cause.options import of_a_launcher
from preflight.investigate.diagnose import diagnose


@pytest.mark.parametrize(
    ("line", "launched"),
    [
        ("train.py: error: unrecognized arguments: --epochs 3", False),
        ("train.py: error: unrecognized arguments: --local-rank=3", False),
        ("[default0]:/job/train_vae.py: error: the following arguments are required: --data", False),
        ("launch.py: error: the following arguments are required: --config", False),
        ("launch.py: error: argument --master-port/--master_port: invalid int value: ''", True),
        ("run.py: error: the following arguments are required: training_script, training_script_args", True),
        ("torchrun: error: argument --nproc-per-node/--nproc_per_node: expected one argument", True),
        ("accelerate <command> [<args>] launch: error: unrecognized arguments: --machines 2", True),
        ("__main__.py: error: unrecognized arguments: --tune", True),
        ("train.py fit: error: unrecognized arguments: --tune", False),
        ("INFO tools/train.py fit: error: argument --lr: invalid float value: '1e'", False),
        ("__main__.py fit: error: unrecognized arguments: --tune", True),
        ("error: unrecognized arguments: --tune", False),
    ],
)
def test_a_script_is_ones_own_and_a_command_is_not(tmp_path: Path, line: str, launched: bool) -> None:
    assert of_a_launcher(line) is launched
    (tmp_path / "run.log").write_text(f"usage: it [-h] [--lr LR]\n{line}\n")
    incident = diagnose(tmp_path).incident
    assert incident is not None
    assert incident.category == ("environment" if launched else "usercode")
