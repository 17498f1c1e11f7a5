"""Slurm's queue: ``sbatch --wait`` of a script; its output is shown when it ends.

Waiting in the queue is not running: the deadline of a test is the job's time limit, which Slurm enforces from its start.
"""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Sequence

from preflight.investigate.bisect.launchers import Point, filled
from preflight.investigate.bisect.running import Launch

# The script's output goes to a file of the job; sbatch itself returns the job's exit code.
_SUBMIT = 'out=$1; shift; sbatch "$@"; code=$?; cat "$out" 2>/dev/null; exit $code'


def launch(program: Sequence[str], point: Point) -> Launch:
    """Return the command; the first word of the program is the batch script."""
    name = f"preflight-bisect-{secrets.token_hex(4)}"
    out = os.path.join(os.path.abspath(point.state), f"{name}.out")
    limit = max(1, math.ceil(point.seconds / 60.0))  # Slurm counts in minutes
    options = ["--wait", f"--job-name={name}", f"--output={out}", f"--error={out}", f"--time={limit}"]
    if point.gpus is not None:
        options += [f"--nodes={point.nodes}", f"--ntasks-per-node={point.local}"]
    elif point.hosts:
        options += [f"--nodes={len(point.hosts)}"]
    if point.hosts:
        options.append(f"--nodelist={','.join(point.hosts)}")
    words = filled(program, point.words())
    return Launch(
        argv=("sh", "-c", _SUBMIT, "sbatch", out, *options, *words), environment=point.environment, folder=point.folder,
        cleanup=("scancel", f"--name={name}"), waits=point.queue + 60.0 * limit - point.seconds + 60.0,
    )  # fmt: skip
