"""The labels that a network is given for its verdicts, and whether another network is trained through them.

Looked at are losses of one verdict for each sample, in the first few calls of each place, whose numbers came out of the
last layer of a network alone: what compares two verdicts with one another says of neither what it should be.
"""

from __future__ import annotations

import functools
from itertools import islice
from typing import Any

from .bounded import BoundedLooks
from .functionals import readable, watch
from .graph import name_of
from .patching import Patches
from .pending import Pending, to_host
from .places import from_program, here
from .plain import Outside, impossible, plain_types
from .recorder import Recorder
from .tail import WEIGHTS
from .variables import Variables

OWN, THROUGH = "verdict.own", "verdict.through"
_LOSSES = ("binary_cross_entropy", "binary_cross_entropy_with_logits", "mse_loss")
_LEAF = "AccumulateGrad"
_MOST_LOOKS = 16
_MOST_PLACES = 32
_MOST_ABOVE = 24  # operations between a loss and the layer that its numbers come from
_MOST_NODES = 4000
_ALIKE = 0.35
"""How far labels may lie apart that are smoothed, or drawn around one."""


class Verdicts:
    """Watches losses that compare one number with a label."""

    def __init__(self, recorder: Recorder, variables: Variables) -> None:
        self.recorder = recorder
        self.variables = variables
        self._looks = BoundedLooks(_MOST_LOOKS, _MOST_PLACES)
        plain_types(recorder.torch)  # what the quick look compares with

    def install(self, patches: Patches) -> None:
        """Put the watching functions in place."""
        if self.recorder.wants(OWN):
            for name in _LOSSES:
                watch(self.recorder, patches, name, functools.partial(self._look, name))

    def _look(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Tell the label that a loss holds against what a network says, and whether one or several optimizers hold what made it."""
        recorder, torch = self.recorder, self.recorder.torch
        said: Any = kwargs.get("input", args[0] if args else None)
        label: Any = kwargs.get("target", args[1] if len(args) > 1 else None)
        if recorder.backward_depth or len(self.variables.optimizers()) < 2:
            return
        if type(said) not in plain_types(torch) or said.grad_fn is None or impossible(torch):
            return
        if not readable(recorder, label) or label.requires_grad or not label.is_floating_point():
            return
        place = here()
        if not self._looks.take(place or ""):
            return
        layer = _layer(said.grad_fn)
        judge = None if layer is None else self._holder(layer, 1)
        if judge is None:
            return
        kind = OWN if self._holder(layer, _MOST_NODES) == judge else THROUGH
        subject = f"{from_program(place)}#{name}#optimizer{judge}"
        with Outside(torch):
            flat = label.detach().reshape(-1).float()
            told = to_host(torch, torch.stack([flat.amin(), flat.amax()]))
        head = recorder.head()
        exact = name == "mse_loss"  # any number may be looked for
        recorder.later(
            Pending([told], lambda read: read[0]),
            lambda found: [("scalar", (*head, kind, subject, _label(found[0], found[1], exact)))],
        )

    def _holder(self, layer: Any, most: int) -> int | None:
        """Which optimizer holds all that a graph was made with; None where there is none, or there are several.

        Args:
            layer: The operation that it ends with.
            most: How many operations are gone through; with 1 only what this one holds itself.
        """
        found: list[Any] = []
        nodes, seen = [layer], {id(layer): layer}  # held, so that what stands for an operation stays the same
        for node in islice(nodes, most):  # grows as it goes
            for below, _ in node.next_functions:
                if below is None or id(below) in seen:
                    continue
                seen[id(below)] = below
                own = below if name_of(below) == _LEAF else _turned(below)
                if own is not None:
                    found.append(own.variable)
                else:
                    nodes.append(below)
        held = self._owners(found)
        return held.pop() if len(held) == 1 else None

    def _owners(self, tensors: list[Any]) -> set[int]:
        wanted = {id(one) for one in tensors}
        return {
            index
            for index, optimizer in self.variables.optimizers()
            if any(id(one) in wanted for group in optimizer.param_groups for one in group["params"])
        }


def _turned(node: Any) -> Any:
    """The leaf that a weight is which a layer takes turned over; None where it is something else."""
    if name_of(node) not in ("T", "Transpose", "ToCopy"):
        return None
    below = [one for one, _ in node.next_functions if one is not None]
    return below[0] if len(below) == 1 and name_of(below[0]) == _LEAF else None


def _layer(node: Any) -> Any:
    """The last layer of which a loss takes the numbers one by one; None where it takes them from several."""
    for _ in range(_MOST_ABOVE):
        if name_of(node).startswith(WEIGHTS):
            return None if name_of(node) == _LEAF else node
        below = [one for one, _ in node.next_functions if one is not None]
        if len(below) != 1:
            return None
        node = below[0]
    return None


def _label(low: float, high: float, exact: bool) -> float:
    """0 or 1 where all labels say so, and one half where they say several things, or something else."""
    for label in (0.0, 1.0):
        if (low == high == label) if exact else (abs(low - label) <= _ALIKE and abs(high - label) <= _ALIKE):
            return label
    return 0.5
