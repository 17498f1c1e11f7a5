"""Slurm, inside or outside an allocation: ``srun --nodes N --ntasks G --ntasks-per-node L PROGRAM``."""

from __future__ import annotations

from collections.abc import Sequence

from preflight.investigate.bisect.launchers import Point, filled
from preflight.investigate.bisect.running import Launch


def launch(program: Sequence[str], point: Point) -> Launch:
    """Return the command; one task a GPU."""
    argv = ["srun", "--kill-on-bad-exit=1", "--label"]
    if point.gpus is not None:
        argv += [f"--nodes={point.nodes}", f"--ntasks={point.gpus}", f"--ntasks-per-node={point.local}"]
    elif point.hosts:
        argv += [f"--nodes={len(point.hosts)}"]
    if point.hosts:
        argv.append(f"--nodelist={','.join(point.hosts)}")
    return Launch(argv=(*argv, *filled(program, point.words())), environment=point.environment, folder=point.folder)
