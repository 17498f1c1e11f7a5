"""Whether the ratio of two policies, which a loss clips, is one everywhere, and whether the model saw these samples before.

A ratio is the exponential of a difference of logarithms, and its graph still holds it. Of samples that come in a later step
than they came first, the policy has changed since; that they do is told by fingerprints of the rows of the model's input,
of which a few thousand are kept. Looked at are backward passes of detailed iterations.
"""

from __future__ import annotations

import weakref
from typing import Any

from .entry import Entry
from .graph import name_of
from .pending import Pending, to_host
from .places import from_program
from .plain import DEVICES, Outside, impossible, plain_types, simple
from .recorder import Recorder
from .sequences import Sequences
from .tail import WEIGHTS
from .unpacking import runs_a_hook

ONE, AGAIN = "ratio.one", "ratio.again"
_MOST_NODES = 48
_MOST_MISSES = 4
_MOST_PLACES = 64
_LEAST = 8  # values that chance does not make ones
_MOST_ROWS = 256
_MOST_WIDE = 1024  # numbers of a row
_MOST_KNOWN = 4096
_SPREAD = 2654435761  # Knuth's multiplicative hash


class Ratios:
    """Looks at the losses of backward passes for a ratio that they clip."""

    def __init__(self, recorder: Recorder, sequences: Sequences) -> None:
        self.recorder = recorder
        self.sequences = sequences
        self._misses: dict[str, int] = {}  # by place: how often no ratio was found there
        self._found = False
        self._given: weakref.ref[Any] | None = None  # what the model that is trained was given last
        self._known: dict[int, int] = {}  # by fingerprint of a row, the step in which it was first seen
        plain_types(recorder.torch)

    def given(self, args: Any) -> None:
        """A model that is trained was called."""
        if self._found:
            self._given = weakref.ref(args[0]) if args and isinstance(args[0], self.recorder.torch.Tensor) else None

    def look(self, entry: Entry, loss: Any) -> None:
        """Tell of the ratio in a loss, and how many of the samples have been there before."""
        recorder, place = self.recorder, entry.place or ""
        misses = self._misses.get(place, 0)
        root = getattr(loss, "grad_fn", None)
        if misses >= _MOST_MISSES or (not misses and len(self._misses) >= _MOST_PLACES) or root is None:
            return
        if self.sequences.packed or "autocast" in entry.context or impossible(recorder.torch):
            return  # in a coarser precision a policy that has changed a little may answer as before
        ratio = _ratio(root)
        if ratio is None:
            self._misses[place] = misses + 1
            return
        self._found = True
        step, head, word = recorder.step, recorder.head(), from_program(entry.place)
        rows = self._rows()
        with Outside(recorder.torch):
            reads = [to_host(recorder.torch, (ratio == 1).all().reshape(1))]
            if rows is not None:
                reads.append(to_host(recorder.torch, rows))

        def told(read: list[list[Any]]) -> list[tuple[str, tuple[Any, ...]]]:
            found = [("scalar", (*head, ONE, word, float(read[0][0])))]
            if len(read) > 1:
                found.append(("scalar", (*head, AGAIN, word, self._again(read[1], step))))
            return found

        recorder.later(Pending(reads, lambda read: read), told)

    def _rows(self) -> Any:
        """A fingerprint of each row that the model was given; None where there is none."""
        torch = self.recorder.torch
        given = self._given() if self._given is not None else None
        self._given = None
        if (
            given is None
            or not simple(given)
            or given.device.type not in DEVICES
            or given.dim() < 2
            or not given.numel()
        ):
            return None
        with Outside(torch):
            rows = given.detach()[:_MOST_ROWS].reshape(min(len(given), _MOST_ROWS), -1)[:, :_MOST_WIDE].contiguous()
            whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[rows.element_size()]
            factors = torch.arange(1, rows.shape[1] + 1, device=rows.device) * _SPREAD
            return (rows.view(whole).long() * factors).sum(1)

    def _again(self, marks: list[int], step: int) -> float:
        """Which share of these rows was there in an earlier step; none where rows are alike by chance, as few states are."""
        if len(set(marks)) < len(marks):
            return 0.0
        again = sum(self._known.get(mark, step) < step for mark in marks)
        for mark in marks:
            if len(self._known) < _MOST_KNOWN:
                self._known.setdefault(mark, step)
        return again / len(marks)


def _ratio(root: Any) -> Any:
    """The exponential that is clipped between a loss and the last operations with weights; None where there is none."""
    nodes, seen = [root], {id(root)}
    for node in nodes:  # grows as it goes
        name = name_of(node)
        if name == "Clamp":
            below = node.next_functions[0][0]
            if below is not None and name_of(below) == "Exp":
                return _result(below)
        elif name.startswith(WEIGHTS):
            continue
        for below, _ in node.next_functions:
            if below is not None and id(below) not in seen and len(nodes) < _MOST_NODES:
                seen.add(id(below))
                nodes.append(below)
    return None


def _result(node: Any) -> Any:
    """What an exponential gave, where it can be read and is fine enough."""
    if runs_a_hook(node, "result"):
        return None
    try:
        result = node._saved_result
    except (AttributeError, RuntimeError):
        return None
    if result is None or not simple(result) or result.device.type not in DEVICES or result.element_size() < 4:
        return None
    return result if result.is_floating_point() and result.numel() >= _LEAST else None
