"""The collectives of this rank, in order: what another rank's are compared with, and which ranks are worth a run of their own."""

from __future__ import annotations

import ast
from typing import Any

from preflight.dryrun.virtual.progress import Progress
from preflight.dryrun.virtual.sources import own_trees

MOST = 20_000
"""Calls that are kept; ranks that differ do so long before."""


class Traffic:
    """Takes notes of collectives.

    Args:
        progress: Where the run is.

    Attributes:
        rank: This rank and the number of ranks, once a process group was started.
        groups: The global ranks of each group that was used.
        stages: The ranks of a pipeline, one for each stage.
        backend: What carries tensors of the GPU.
        starts: Are called when a group gets its communicator.
        mail: What stages of a pipeline tell each other.
    """

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.rank: tuple[int, int] | None = None
        self.groups: list[tuple[int, ...]] = []
        self.stages: tuple[int, ...] = ()
        self.backend = "nccl"
        self.starts: list[Any] = []
        self.mail: Any = None
        self._known: dict[int, int] = {}
        self._on_gpu: set[int] = set()
        self._calls: list[tuple[str, int, str, int, str, int]] = []

    def note(self, name: str, size: int, group: Any, on_gpu: bool = True) -> None:
        """Note a collective.

        Args:
            name: Its name.
            size: Bytes.
            group: The process group; None is that of all ranks.
            on_gpu: Whether tensors of the GPU take part: the library then makes a communicator for the group.
        """
        ranks = self._ranks(group)
        if len(ranks) < 2:
            return
        number = self._known.setdefault(hash(ranks), len(self.groups))
        if number == len(self.groups):
            self.groups.append(ranks)
        if on_gpu and number not in self._on_gpu and "nccl" in self.backend:
            self._on_gpu.add(number)
            for call in self.starts:
                call()
        if len(self._calls) < MOST:
            phase, step, _, line = self.progress.where()
            self._calls.append((name, size, line, step, phase, number))

    def pipeline(self, group: Any) -> None:
        """Note that a group of ranks is a pipeline."""
        ranks = self._ranks(group)
        if len(ranks) > 1:
            self.stages = ranks

    def _ranks(self, group: Any) -> tuple[int, ...]:
        import torch.distributed as dist

        try:
            return tuple(dist.get_process_group_ranks(group if group is not None else dist.group.WORLD))
        except (RuntimeError, ValueError, KeyError, TypeError):
            return tuple(range(self.rank[1])) if self.rank is not None else ()

    def summary(self) -> dict[str, Any]:
        """Return plain values."""
        if self.rank is None:
            return {}
        rank, world = self.rank
        asked = sorted((_named_ranks(self.progress) | set(self.stages)) - {rank})
        return {
            "rank": rank,
            "world": world,
            "others": [other for other in asked if 0 <= other < world],
            "messages": self.mail.told() if self.mail is not None else {},
            "communicators": len(self._on_gpu),
            "groups": self.groups,
            "calls": self._calls,
        }


def _named_ranks(progress: Progress) -> set[int]:
    """Return the ranks that the person's own code does something for: ``if rank == 2``."""
    found: set[int] = set()
    for _, tree in own_trees(progress):
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
                if any(_is_rank(side) for side in sides):
                    found |= {
                        n.value
                        for side in sides
                        for n in ast.walk(side)
                        if isinstance(n, ast.Constant) and type(n.value) is int
                    }
    return found


def _is_rank(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        node = node.func
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return "rank" in name.lower()
