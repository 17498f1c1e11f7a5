"""Slurm's queue: ``sbatch --wait`` of a script; its output is shown when it ends, and it is cancelled at the deadline."""

from __future__ import annotations

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
    options = ["--wait", f"--job-name={name}", f"--output={out}", f"--error={out}"]
    if point.gpus is not None:
        options += [f"--nodes={point.nodes}", f"--ntasks-per-node={point.local}"]
    elif point.hosts:
        options += [f"--nodes={len(point.hosts)}"]
    if point.hosts:
        options.append(f"--nodelist={','.join(point.hosts)}")
    words = filled(program, point.words())
    return Launch(
        argv=("sh", "-c", _SUBMIT, "sbatch", out, *options, *words), environment=point.environment, folder=point.folder,
        cleanup=("scancel", f"--name={name}"),
    )  # fmt: skip
