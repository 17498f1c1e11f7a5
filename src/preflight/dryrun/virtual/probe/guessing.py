"""Trains a model on tokens that nothing can tell beforehand: what it learns to get right, it was shown.

Tokens are drawn evenly and anew in each round. Whoever does not see the token that it has to predict cannot get below a
loss of log(K) for K kinds of them, however long it learns.
"""

from __future__ import annotations

import math
import time
from typing import Any

import torch

from preflight.dryrun.virtual.probe.relation import MOST, Relation, by_position
from preflight.dryrun.virtual.probe.trials import NOISE, Trial, evaluating
from preflight.dryrun.virtual.probe.watch import Root, Watch

KINDS, ROUNDS, SECONDS = 8, 150, 8.0
_SLOWEST = 0.25
"""Seconds of a round, above which too few of them would fit."""
_LAST, _FEWEST = 6, 200
"""The loss is the mean over so many rounds, and at least so many tokens."""
_RATE = 3e-3
_CLEAR = 0.5
"""Below this share of the floor nothing more has to be shown."""


def guess(root: Root, watch: Watch) -> dict[str, Any] | None:
    """Train a model on random tokens; return the loss that it gets to, and the floor. It is not the same after that."""
    if root.kept is None:
        return None
    # What is read as a whole, like the source of a translation, may hold the answer; it is drawn on its own then.
    causal = [relation for relation, seen in root.kept[1] if seen["moved"] is not None and seen["moved"] <= NOISE]
    rest = [relation for relation, _ in root.kept[1] if relation not in causal] if causal else []
    trial = Trial(root, watch)
    known = _kinds(trial, [relation for relation, _ in root.kept[1]])
    if known is None:
        return None
    with evaluating(root.module, watch), torch.enable_grad():
        return _train(trial, causal or [relation for relation, _ in root.kept[1]], rest, known)


def _kinds(trial: Trial, related: list[Relation]) -> Any:
    """Return tokens that are in the batch and among the classes; None where there are too few."""
    classes = min((r.classes for r in related if r.classes), default=0)
    found = torch.cat([trial.leaves[r.leaf].flatten() for r in related]).unique()
    found = found[(found >= 0) & (found < classes)]
    return found[:: max(1, found.numel() // KINDS)][:KINDS] if found.numel() >= 4 else None


def _train(trial: Trial, related: list[Relation], rest: list[Relation], known: Any) -> dict[str, Any] | None:
    learning = [p for p in trial.root.module.parameters() if p.requires_grad]
    adam = _Adam(learning)
    floor, losses, tokens = math.log(known.numel()), [], 0
    began = time.monotonic()
    for number in range(ROUNDS):
        found = _round(trial, related, rest, known, number)
        if found is None:
            return None
        loss, tokens = found
        losses.append(float(loss))
        adam.step(torch.autograd.grad(loss, learning, allow_unused=True))
        passed = time.monotonic() - began
        last = losses[-_LAST:]
        if passed > SECONDS or not math.isfinite(losses[-1]) or passed > _SLOWEST * (number + 1) + 1:
            break
        if len(last) == _LAST and sum(last) / _LAST < _CLEAR * floor:
            break
    last = losses[-_LAST:]
    if len(last) < _LAST or tokens * _LAST < _FEWEST or not all(map(math.isfinite, last)):
        return None
    return {
        "loss": round(sum(last) / _LAST, 4),
        "floor": round(floor, 4),
        "kinds": int(known.numel()),
        "rounds": len(losses),
    }


class _Adam:
    """Adam without weight decay, written out: one of PyTorch's would be counted among the script's."""

    def __init__(self, parameters: list[Any]) -> None:
        self.parameters, self.number = parameters, 0
        self.first = [torch.zeros_like(p) for p in parameters]
        self.second = [torch.zeros_like(p) for p in parameters]

    def step(self, gradients: Any) -> None:
        """Move the parameters."""
        self.number += 1
        with torch.no_grad():
            for parameter, first, second, gradient in zip(
                self.parameters, self.first, self.second, gradients, strict=True
            ):
                if gradient is None:
                    continue
                first.lerp_(gradient, 0.1)
                second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
                spread = (second / (1 - 0.999**self.number)).sqrt_().add_(1e-8)
                parameter.sub_(first / (1 - 0.9**self.number) / spread, alpha=_RATE)


def _round(trial: Trial, related: list[Relation], rest: list[Relation], known: Any, number: int) -> Any:
    """Return the loss on fresh tokens and how many there were; None where no output is one for each position."""
    first = related[0]
    sizes = {r.leaf: _turned(trial.leaves[r.leaf], r).shape for r in (*related, *rest)}
    samples, size = sizes[first.leaf]
    if any(shape[0] != samples for shape in sizes.values()):
        return None
    torch.manual_seed(1000 + number)
    longest = max(shape[1] for shape in sizes.values())
    drawn = torch.randint(0, known.numel(), (samples, longest + 2 * MOST))
    changed = {}
    for relation in related:
        start = MOST - relation.shift
        tokens = known[drawn[:, start : start + sizes[relation.leaf][1]]].to(trial.leaves[relation.leaf].dtype)
        changed[relation.leaf] = _turned(tokens, relation).contiguous()
    for relation in rest:
        alone = known[torch.randint(0, known.numel(), sizes[relation.leaf])].to(trial.leaves[relation.leaf].dtype)
        changed[relation.leaf] = _turned(alone, relation).contiguous()
    wanted = drawn[:, MOST : MOST + size - first.shift]
    worst: Any = None
    for output in trial.given(number, changed):
        ordered = by_position(output, (samples, size), first)
        if ordered is None or ordered.dim() != 3 or ordered.shape[-1] != first.classes or not ordered.requires_grad:
            continue
        span = min(ordered.shape[1], wanted.shape[1])
        scores = ordered[:, :span, known.long()].float()
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), wanted[:, :span].flatten())
        # Of several outputs of this form one may be the targets themselves; the others have to know them, too.
        worst = loss if worst is None else torch.maximum(worst, loss)
    return None if worst is None else (worst, int(wanted.numel()))


def _turned(tokens: Any, relation: Relation) -> Any:
    """Return tokens as (samples, positions), or what was so as the model takes it."""
    return tokens if relation.time else tokens.t()
