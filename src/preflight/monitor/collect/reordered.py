"""Labels of a batch that a loss is given in another order than the loader gave them.

Looked at are, in detailed iterations and the first calls of each place, targets with one number for each sample. Of the last
batches the lists of such numbers are kept, as numbers; no tensor is held. A target that is none of them, in whatever order,
was made by the program, and nothing is told of it. Once a place has been looked at often enough, no other one is: of two
losses that belong together, one alone would tell nothing.
"""

from __future__ import annotations

import functools
from collections import Counter, deque
from collections.abc import Sequence
from math import lgamma, log
from typing import Any

from .bounded import BoundedLooks
from .functionals import readable, watch
from .graph import name_of
from .patching import Patches
from .pending import Pending, to_host
from .places import from_program, here
from .plain import Outside, impossible, simple
from .recorder import Recorder

MOVED, TURNED = "labels.moved", "labels.turned"
_LOSSES = (
    *("binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "huber_loss", "l1_loss"),
    *("mse_loss", "multi_margin_loss", "nll_loss", "smooth_l1_loss"),
)
_KEPT = 4  # lists of labels of the last batches
_MOST = 1024  # labels of a batch
_MOST_LOOKS = 8
_MOST_PLACES = 32
_MOST_NODES = 400
_MOVING = (
    *("Flip", "Roll", "Index", "Gather", "Take", "Sort", "Topk", "Scatter", "MaskedSelect", "MaskedScatter", "Repeat"),
    *("Cat", "Stack", "Split", "Unbind", "Mm", "Bmm", "Compiled"),
)
"""Beginnings of the names of operations that may give samples in another order, or put several of them together."""
_CHANCE = log(1e-4)
"""How likely it may be that other numbers, of which there are as many of each, lie like that by chance; it is asked several times."""


class Reordered:
    """Watches losses that are given one number for each sample."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._looks = BoundedLooks(_MOST_LOOKS, _MOST_PLACES)
        self._lists: deque[tuple[float, ...]] = deque(maxlen=_KEPT)
        self._over = False

    def install(self, patches: Patches) -> None:
        """Put the watching functions in place."""
        if self.recorder.wants(MOVED):
            for name in _LOSSES:
                watch(self.recorder, patches, name, functools.partial(self._look, name))

    def fetched(self, found: Sequence[Any]) -> None:
        """A loader gave a batch to train on: remember what may be its labels."""
        torch = self.recorder.torch
        if self._over or not self.recorder.wants(MOVED) or impossible(torch):
            return
        with Outside(torch):
            for tensor in found:
                if tensor.device.type == "cpu" and simple(tensor) and _is_list(tensor):
                    self._lists.append(tuple(map(float, tensor.detach().reshape(-1).tolist())))

    def _look(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        recorder = self.recorder
        target: Any = kwargs.get("target", args[1] if len(args) > 1 else None)
        if not self._lists or not readable(recorder, target) or not _is_list(target) or impossible(recorder.torch):
            return
        place = here()
        if not self._looks.take((place, name)):
            self._over = True
            self._lists.clear()
            return
        lists = [one for one in self._lists if len(one) == target.numel()]
        if not lists:
            return
        with Outside(recorder.torch):
            told = to_host(recorder.torch, target.detach().reshape(-1).clone())
            moved = _may_move(kwargs.get("input", args[0] if args else None))
        head, word = recorder.head(), f"{from_program(place)}#{name}"

        def rows(values: Sequence[float]) -> list[tuple[str, tuple[Any, ...]]]:
            return [("scalar", (*head, what, word, value)) for what, value in _told(values, lists, moved)]

        recorder.later(Pending([told], lambda read: read[0]), rows)


def _is_list(tensor: Any) -> bool:
    """Whether a tensor has one number for each of several samples."""
    return tensor.dim() in (1, 2) and 1 < tensor.numel() == len(tensor) <= _MOST and not tensor.is_complex()


def _may_move(output: Any) -> bool:
    """Whether what a loss is given was, near its end, put in another order, as the labels may have been with it."""
    root: Any = getattr(output, "grad_fn", None)
    if root is None:
        return True
    nodes, known = [root], {root}
    for node in nodes:  # grows as it goes
        name = name_of(node)
        if name.startswith(_MOVING):
            return True
        for below, _ in node.next_functions:
            if below is not None and below not in known and len(nodes) < _MOST_NODES:
                known.add(below)
                nodes.append(below)
    return False


def _told(values: Sequence[float], lists: Sequence[tuple[float, ...]], moved: bool) -> list[tuple[str, float]]:
    """Whether labels are those of a batch in another order, and whether they only went round, or lie the other way about.

    Args:
        values: The labels that a loss is given.
        lists: Those of the last batches.
        moved: Whether the outputs of the model may be in another order, too.
    """
    given = tuple(map(float, values))
    if given in lists:
        return [(MOVED, 0.0)]
    counts = Counter(given)
    own = next((one for one in reversed(lists) if Counter(one) == counts), None)
    if own is None:
        return []
    orders = lgamma(len(given) + 1) - sum(lgamma(count + 1) for count in counts.values())
    turned = not moved and log(2 * len(given)) - orders < _CHANCE and _turned(given, own)
    return [(MOVED, 1.0), (TURNED, float(turned))]


def _turned(given: tuple[float, ...], own: tuple[float, ...]) -> bool:
    """Whether one list is another one that went round by some places, or the other way about."""
    return given == own[::-1] or any(given == own[by:] + own[:by] for by in range(1, len(own)) if own[by] == given[0])
