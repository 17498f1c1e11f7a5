"""Between which numbers the targets of a loss lie, in the first passes of each place in the code, and where they come from.

Of the labels of a CTC loss it is told instead which share of them is its blank, and of the probabilities that a cross
entropy compares with, for how many samples these add up to more than one.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from math import prod
from typing import Any

from . import draws
from .bounded import BoundedLooks
from .draws import Draws
from .entry import Entry
from .graph import name_of
from .pending import Pending, to_host
from .places import from_program
from .plain import DEVICES, Outside, impossible, plain_types, simple
from .recorder import Recorder
from .sequences import Sequences
from .tail import WEIGHTS
from .unpacking import runs_a_hook

LOSSES = ("MseLoss", "SmoothL1Loss", "HuberLoss", "BinaryCrossEntropyWithLogits")
OUTSIDE = "targets.outside"
NAMES = ("targets.low", "targets.high", "targets.below", OUTSIDE)
CTC, BLANK = "CtcLoss", "targets.blank"
CROSS_ENTROPY, SUMS = "CrossEntropy", "targets.sums"
_MARGIN = 0.01
_TINY = 1e-30
_MOST_NODES = 24
_MOST_LOOKS = 3
_MOST_PLACES = 64
_MOST_NUMBERS = 1 << 20


class Ranges:
    """Looks at what losses compare with."""

    def __init__(self, recorder: Recorder, sequences: Sequences, draws: Draws) -> None:
        self.recorder = recorder
        self.draws = draws
        self.sequences = sequences
        self._looks = BoundedLooks(_MOST_LOOKS, _MOST_PLACES)
        plain_types(recorder.torch)  # what the quick look compares with

    def look(self, entry: Entry, loss: Any) -> None:
        """Tell the lowest and the highest target of each loss, what those below 0 have of the squares, and what lies outside of 0 and 1."""
        recorder, place = self.recorder, entry.place or ""
        root = getattr(loss, "grad_fn", None)
        if root is None or not self._looks.take(place):
            return
        if self.sequences.packed or impossible(recorder.torch):
            return
        nodes = list(_losses(root))
        several = Counter(name for _, name in nodes)
        for node, name in nodes:
            if several[name] > 1:
                continue
            if name == CTC:
                if recorder.wants(BLANK):
                    self._tell_blank(node, f"{from_program(entry.place)}#{name}")
                continue
            if name == CROSS_ENTROPY:
                if recorder.wants(SUMS):
                    self._tell_sums(node, f"{from_program(entry.place)}#{name}")
                continue
            target = _target(node, "target") if recorder.wants(OUTSIDE) else None
            if target is not None:
                self._tell(target, f"{from_program(entry.place)}#{name}")

    def _tell(self, target: Any, subject: str) -> None:
        recorder, torch = self.recorder, self.recorder.torch
        with Outside(torch):
            flat = target.detach().reshape(-1).float()
            outside = ((flat < -_MARGIN) | (flat > 1 + _MARGIN)).float().mean()
            low = flat.clamp(max=0)
            below = low.dot(low) / flat.dot(flat).clamp(min=_TINY)
            told = to_host(torch, torch.stack([flat.amin(), flat.amax(), below, outside]))
        head = recorder.head()
        fresh = self.draws.fresh(target) if recorder.wants(draws.NAME) else None
        if fresh is not None:
            recorder.scalar(draws.NAME, subject, float(fresh))

        def rows(found: list[float]) -> list[tuple[str, tuple[Any, ...]]]:
            return [("scalar", (*head, name, subject, value)) for name, value in zip(NAMES, found, strict=True)]

        recorder.later(Pending([told], lambda read: read[0]), rows)

    def _tell_sums(self, node: Any, subject: str) -> None:
        """Tell for which share of the samples the targets of a cross entropy, all between 0 and 1, add up to more than 1.

        Where there are as many samples as classes, each sample may be compared with each other one, of which several fit.
        """
        torch, target = self.recorder.torch, _target(node, "other")
        if target is None or (target.dim() == 2 and target.shape[0] == target.shape[1]):
            return
        with Outside(torch):
            rows = target.detach().float().sum(1 if target.dim() > 1 else 0)
            between = (target.amin() >= -_MARGIN) & (target.amax() <= 1 + _MARGIN)
            told = to_host(torch, ((rows > 1 + _MARGIN) & between).float().mean().reshape(1))
        head = self.recorder.head()

        def tell(read: list[float]) -> list[tuple[str, tuple[Any, ...]]]:
            return [("scalar", (*head, SUMS, subject, read[0]))]

        self.recorder.later(Pending([told], lambda read: read[0]), tell)

    def _tell_blank(self, node: Any, subject: str) -> None:
        """Tell which share of the labels of a CTC loss is its blank; padding behind the labels does not count."""
        torch = self.recorder.torch
        found = _labels(node)
        if found is None:
            return
        labels, lengths, blank = found
        with Outside(torch):
            if labels.dim() == 2:
                lengths = lengths.to(labels.device)
                labels = labels[torch.arange(labels.shape[1], device=labels.device) < lengths.unsqueeze(1)]
            else:
                labels = labels[: int(lengths.sum())]
            told = to_host(torch, (labels == blank).float().mean().reshape(1)) if labels.numel() else None
        if told is None:
            return
        head = self.recorder.head()

        def rows(read: list[float]) -> list[tuple[str, tuple[Any, ...]]]:
            return [("scalar", (*head, BLANK, subject, read[0]))]

        self.recorder.later(Pending([told], lambda read: read[0]), rows)


def _labels(node: Any) -> tuple[Any, Any, int] | None:
    """The labels of a CTC loss, how many each sample has, and the blank, where they can be read and are not too many."""
    if runs_a_hook(node, "targets"):
        return None
    try:
        labels, lengths, blank = node._saved_targets, node._saved_target_lengths, node._saved_blank
    except (AttributeError, RuntimeError):
        return None  # another library computes it, and keeps other things
    if labels is None or not simple(labels) or labels.device.type not in DEVICES or labels.dim() not in (1, 2):
        return None
    torch = sys.modules["torch"]
    with Outside(torch):
        lengths = torch.as_tensor(lengths)
    return (labels, lengths, int(blank)) if 0 < labels.numel() <= _MOST_NUMBERS else None


def _target(node: Any, name: str) -> Any:
    """What a loss compares with and keeps under a name, where it can be read and is not too much."""
    if runs_a_hook(node, name):
        return None
    try:
        target = getattr(node, f"_saved_{name}")
    except (AttributeError, RuntimeError):
        return None
    if target is None or not simple(target) or target.device.type not in DEVICES or not target.is_floating_point():
        return None
    return target if 0 < target.numel() <= _MOST_NUMBERS else None


def _losses(root: Any) -> Iterator[tuple[Any, str]]:
    """Losses that compare with a target, between a loss and the last operations with weights."""
    nodes, seen = [root], {id(root)}
    for node in nodes:  # grows as it goes
        name = name_of(node)
        if name in LOSSES or name == CTC:
            yield node, name
        elif name == "Div" and (product := _weighed(node)) is not None:
            yield product, CROSS_ENTROPY
        elif not name.startswith(WEIGHTS):
            for below, _ in node.next_functions:
                if below is not None and id(below) not in seen and len(nodes) < _MOST_NODES:
                    seen.add(id(below))
                    nodes.append(below)


def _weighed(node: Any) -> Any:
    """Where logarithms of probabilities meet their targets, below the mean over the samples that ``cross_entropy`` computes.

    The mean of a program's own over what a mask picks out divides by a tensor, and one over rows is taken of their sums.
    """
    if len(node.next_functions) != 1:
        return None  # divided by a tensor, whose saved value is not to be asked for
    samples: Any = getattr(node, "_saved_other", None)
    shape: Any = ()
    for name in ("Neg", "Sum", "Mul"):
        node = next((below for below, _ in node.next_functions), None)
        if node is None or name_of(node) != name or hasattr(node, "_saved_dim"):
            return None
        shape = getattr(node, "_saved_self_sym_sizes", shape)
    scores, constant = (below for below, _ in node.next_functions)
    if scores is not None and constant is None and name_of(scores) == "Mul":  # classes have weights, which come last
        node = scores
        scores, constant = (below for below, _ in node.next_functions)
    if constant is not None or scores is None or name_of(scores) != "LogSoftmax" or not isinstance(samples, int):
        return None
    return node if shape and samples * shape[1 if len(shape) > 1 else 0] == prod(shape) else None
