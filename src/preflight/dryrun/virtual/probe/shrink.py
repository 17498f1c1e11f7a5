"""A smaller model: fewer layers and less width in the arguments with which the script builds it."""

from __future__ import annotations

from preflight.dryrun.virtual.progress import Progress


class Shrink:
    """Placeholder."""

    def __init__(self, layers: int | None, width: int | None, progress: Progress) -> None:
        self.layers, self.width, self.progress = layers, width, progress
        self.told: dict[str, None] = {}

    def install(self) -> None:
        """Nothing."""
