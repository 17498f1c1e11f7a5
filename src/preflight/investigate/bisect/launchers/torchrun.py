"""torchrun on this node: ``torchrun --standalone --nproc-per-node GPUS PROGRAM``."""

from __future__ import annotations

from collections.abc import Sequence

from preflight.errors import UsageError
from preflight.investigate.bisect.launchers import Point, filled
from preflight.investigate.bisect.running import Launch


def launch(program: Sequence[str], point: Point) -> Launch:
    """Return the command for the GPUs of one node.

    Raises:
        UsageError: More than one node is needed.
    """
    if (point.nodes or 1) > 1:
        raise UsageError(
            f"torchrun alone starts one node, and {point.gpus} GPUs are {point.nodes}",
            "--launcher srun, sbatch or kubectl; or --gpus-per-node where this node has more",
        )
    words = filled(program, point.words())
    argv = ("torchrun", "--standalone", "--nproc-per-node", str(point.local or 1), *words)
    return Launch(argv=argv, environment=point.environment, folder=point.folder)
