"""How the targets of a loss relate to the tokens that a model was given: the same tokens, later ones, or others."""

from __future__ import annotations

from typing import Any

import torch

MOST = 3
"""Targets are looked for up to so many places later."""
_ALIKE, _APART, _DIFFERENT = 0.98, 0.3, 4


class Relation:
    """Targets that are the tokens of an input.

    Attributes:
        leaf: Which of the inputs. shift: How many places later the target's token stands. time: Which dimension is time.
        classes: Size of the last dimension of the predictions.
    """

    def __init__(self, leaf: int, shift: int, time: int, classes: int | None) -> None:
        self.leaf, self.shift, self.time, self.classes = leaf, shift, time, classes


def tokens(leaves: list[Any]) -> list[int]:
    """Return which inputs are whole numbers in two dimensions, of more than one position."""
    return [
        at
        for at, leaf in enumerate(leaves)
        if isinstance(leaf, torch.Tensor)
        and leaf.dtype in (torch.int64, torch.int32)
        and leaf.dim() == 2
        and min(leaf.shape) >= 1
        and max(leaf.shape) >= 4
    ]


def relations(leaves: list[Any], targets: list[tuple[Any, int, tuple[int, ...]]]) -> list[Relation]:
    """Return how the targets relate to each input that they repeat.

    Args:
        leaves: Values that the model was given.
        targets: Targets, the number that is not counted, and the shape of the predictions.
    """
    found: dict[tuple[int, int], Relation] = {}
    for target, ignored, shape in targets:
        classes = (
            int(shape[-1] if len(shape) == 2 or target.dim() == len(shape) - 1 != 1 else shape[1]) if shape else None
        )
        for at in tokens(leaves):
            for time in (1, 0):
                given = leaves[at] if time else leaves[at].t()
                shift = _shift(given, target, ignored, time)
                if shift is not None:
                    found.setdefault((at, shift), Relation(at, shift, time, classes))
    return list(found.values())


def _shift(given: Any, target: Any, ignored: int, time: int) -> int | None:
    """Return by how many places the targets are later than the tokens; None where they are others.

    Args:
        given: Tokens, (samples, positions).
        target: Targets, in any form.
        ignored: The number that is not counted.
        time: 0 where positions come before samples in the targets' memory.
    """
    samples, size = given.shape
    if target.numel() % samples or target.numel() // samples > size or target.numel() < samples * 3:
        return None
    length = target.numel() // samples
    ordered = target.reshape(samples, length) if time else target.reshape(length, samples).t()
    counted = ordered != ignored
    if int(ordered[counted].unique().numel()) < _DIFFERENT:
        return None
    shares: list[float] = []
    for shift in range(MOST + 1):
        span = min(length, size - shift)
        here = counted[:, :span]
        if span < 3 or int(here.sum()) < max(4, int(counted.sum()) // 2):
            shares.append(0.0)
            continue
        alike = (ordered[:, :span] == given[:, shift : shift + span]) & here
        shares.append(float(alike.sum()) / float(here.sum()))
    best = max(range(len(shares)), key=shares.__getitem__)
    rest = max(share for at, share in enumerate(shares) if at != best)
    return best if shares[best] >= _ALIKE and shares[best] - rest >= _APART else None


def by_position(output: Any, shape: Any, relation: Relation) -> Any:
    """Return an output as (samples, positions, ...), or None where it is not one for each position."""
    samples, size = shape
    if relation.classes is not None and relation.classes not in output.shape:
        return None
    for length in (size, size - 1):
        if output.dim() >= 2 and tuple(output.shape[:2]) == (samples, length):
            return output
        if output.dim() == 3 and tuple(output.shape[:2]) == (length, samples):
            return output.transpose(0, 1)
        if output.dim() == 3 and output.shape[0] == samples and output.shape[2] == length:
            return output.transpose(1, 2)
        if output.dim() == 2 and output.shape[0] == samples * length:
            # Which of the two comes first in memory is taken to be as it is in the targets.
            return (
                output.reshape(samples, length, -1)
                if relation.time
                else output.reshape(length, samples, -1).transpose(0, 1)
            )
    return None
