"""Any command, in which {gpus}, {nodes}, {gpus_per_node}, {nodelist} and other names in braces are filled in."""

from __future__ import annotations

from collections.abc import Sequence

from preflight.investigate.bisect.launchers import Point, filled
from preflight.investigate.bisect.running import Launch


def launch(program: Sequence[str], point: Point) -> Launch:
    """Return the command as it is."""
    return Launch(argv=filled(program, point.words()), environment=point.environment, folder=point.folder)
