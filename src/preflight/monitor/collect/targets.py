"""What each target of a loss counts for: how many there are, and the weight with which each goes into a step.

A negative log-likelihood that is reduced by itself has counted its targets already; what comes back to it in the backward
pass says how much its result counts. So neither is computed: two numbers are read, whatever the program does between this
loss and the one that it goes back from. Where it is reduced by the program, three sums over what comes back tell the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .entry import Entry
from .graph import name_of
from .pending import Pending, to_host
from .places import from_program
from .plain import DEVICES, Outside, impossible, simple
from .recorder import Recorder
from .sequences import Sequences
from .tail import WEIGHTS
from .unpacking import runs_a_hook

_MOST_NODES = 24
_MOST_LOSSES = 4
_MOST_MISSES = 4
_MOST_PLACES = 64
_MOST_NUMBERS = 1 << 20
_MEAN, _NONE = 1, 0
_ALIKE = 1e-3
NAMES = ("targets.count", "targets.each")


class Targets:
    """Looks at the losses of backward passes, where several of them make one step."""

    def __init__(self, recorder: Recorder, sequences: Sequences) -> None:
        self.recorder = recorder
        self.sequences = sequences
        self._misses: dict[str, int] = {}  # by place: how often no loss over classes was found there
        self._several = False  # whether a step was ever made of several passes

    def look(self, entry: Entry, loss: Any) -> None:
        """Tell of the losses that a backward pass begins at, once gradients come to them."""
        recorder = self.recorder
        self._several = self._several or recorder.waiting > 0
        if not (recorder.detail or self._several or _shared(recorder.torch)) or not recorder.wants("scalar"):
            return
        place = entry.place or ""
        misses = self._misses.get(place, 0)
        if misses >= _MOST_MISSES or (not misses and len(self._misses) >= _MOST_PLACES):
            return
        root = getattr(loss, "grad_fn", None)
        if root is None or self.sequences.packed:
            return
        count = 0
        for count, node in enumerate(_losses(root), 1):
            self._watch(node, f"{from_program(entry.place)}#{count - 1}")
        if not count:
            self._misses[place] = misses + 1

    def _watch(self, node: Any, subject: str) -> None:
        """Wait for what comes back to a loss; of a graph that is gone through again only the first time counts."""
        reduction = getattr(node, "_saved_reduction", None)
        if reduction is None:
            return  # a function of the program that is called so
        total = None
        if reduction != _NONE:
            if runs_a_hook(node, "total_weight"):
                return
            total = node._saved_total_weight
        waiting = [True]

        def came(gradients: tuple[Any, ...]) -> None:
            if waiting and self.recorder.active():
                waiting.clear()
                with self.recorder.work("targets"):
                    self._tell(gradients[0], total, reduction == _MEAN, subject)

        node.register_prehook(came)

    def _tell(self, gradient: Any, total: Any, mean: bool, subject: str) -> None:
        recorder, torch = self.recorder, self.recorder.torch
        if gradient is None or not simple(gradient) or gradient.device.type not in DEVICES or impossible(torch):
            return
        head = recorder.head()

        def rows(found: Iterable[float]) -> Iterator[tuple[str, tuple[Any, ...]]]:
            for name, value in zip(NAMES, found, strict=False):
                yield "scalar", (*head, name, subject, value)

        if total is not None:
            if gradient.device.type == "cpu":
                for kind, row in rows(_reduced([float(gradient), float(total)], mean)):
                    recorder.put(kind, row)
                return
            with Outside(torch):
                told = to_host(torch, torch.stack([gradient.double().reshape(()), total.double().reshape(())]))
            recorder.later(Pending([told], lambda read: read[0]), lambda found: list(rows(_reduced(found, mean))))
        elif 0 < gradient.numel() <= _MOST_NUMBERS:
            with Outside(torch):
                flat = gradient.reshape(-1).float()
                told = to_host(torch, torch.stack([flat.sum(), flat.dot(flat), flat.amax(), flat.amin()]))
            recorder.later(Pending([told], lambda read: read[0]), lambda found: list(rows(_weighted(found))))


def _reduced(found: list[float], mean: bool) -> tuple[float, ...]:
    """Count and weight of targets whose loss was added up, from what came back to it and what it counted."""
    came, count = found
    return (count, came / count if mean else came) if count > 0 and came else ()


def _weighted(found: list[float]) -> tuple[float, ...]:
    """The same from sums over what came back to each; nothing where targets weigh differently among themselves."""
    total, squares, most, least = found
    if not total or not squares > 0:
        return ()
    each = squares / total
    alike = abs(max(most, -least) - abs(each)) <= _ALIKE * abs(each)
    return (round(total * total / squares), each) if alike else ()


def _losses(root: Any) -> Iterator[Any]:
    """Losses over classes between a loss and the last operations with weights."""
    nodes, seen, found = [root], {id(root)}, 0
    for node in nodes:  # grows as it goes
        name = name_of(node)
        if name in ("NllLoss", "NllLoss2D"):
            yield node
            found += 1
            if found == _MOST_LOSSES:
                return
        elif not name.startswith(WEIGHTS):
            for below, _ in node.next_functions:
                if below is not None and id(below) not in seen and len(nodes) < _MOST_NODES:
                    seen.add(id(below))
                    nodes.append(below)


def _shared(torch: Any) -> bool:
    """Whether other processes train with this one."""
    dist = torch.distributed
    world: Callable[[], int] = getattr(dist, "get_world_size", lambda: 1)
    return bool(dist.is_available() and dist.is_initialized() and world() > 1)
