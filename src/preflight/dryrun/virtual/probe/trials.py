"""What a model does when its input is changed: an experiment on a copy of the inputs, in evaluation mode."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import torch

from preflight.dryrun.virtual import private
from preflight.dryrun.virtual.probe.relation import Relation, by_position, relations
from preflight.dryrun.virtual.probe.sizes import samples_of, smaller_batch
from preflight.dryrun.virtual.probe.watch import Root, Watch

NOISE = 1e-3
"""An output has moved when it changes by more than this share of what the outputs that should move change by."""


class Trial:
    """A model that is run again and again on the same inputs.

    Args:
        root: The module, with copies of its inputs.
        watch: Listens to the calls.
    """

    def __init__(self, root: Root, watch: Watch) -> None:
        self.root, self.watch = root, watch
        self.leaves, self._rebuild = private.flattened(root.inputs if root.kept is None else root.kept[0])

    def run(self, seed: int, changed: dict[int, Any] | None = None) -> list[Any]:
        """Run the model; return every tensor of numbers that it gives, and what its own losses were given.

        Args:
            seed: Seed of what is drawn.
            changed: Other values for some of the inputs, by position.
        """
        return [tensor.detach().float() for tensor in self.given(seed, changed)]

    def given(self, seed: int, changed: dict[int, Any] | None = None) -> list[Any]:
        """Run the model; return the same with the graph, where one is recorded.

        Args:
            seed: Seed of what is drawn.
            changed: Other values for some of the inputs, by position.
        """
        leaves = list(self.leaves)
        for at, value in (changed or {}).items():
            leaves[at] = value
        copies = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        args, kwargs = self._rebuild(copies)
        torch.manual_seed(seed)
        self.watch.losses.logits = []
        try:
            result = self.root.module(*args, **kwargs)
            inner = [logits for logits, _ in self.watch.losses.logits]
        finally:
            self.watch.losses.logits = None
        return [*_tensors(result), *inner]


def _tensors(tree: Any, depth: int = 0) -> list[Any]:
    """Return tensors of fractions with at least one dimension, out of any nesting."""
    if isinstance(tree, torch.Tensor):
        return [tree] if tree.is_floating_point() and tree.dim() and tree.numel() else []
    if depth > 4:
        return []
    if isinstance(tree, dict):
        return [t for value in tree.values() for t in _tensors(value, depth + 1)]
    if isinstance(tree, (list, tuple)):
        return [t for value in tree for t in _tensors(value, depth + 1)]
    return []


@contextlib.contextmanager
def evaluating(module: Any, watch: Watch) -> Iterator[None]:
    """Put a module into evaluation mode for a while, with nothing of the script's state changed behind its back."""
    progress = watch.progress
    counters = (progress.calls, progress.graph_calls, progress.phase)
    flags = [(part, part.training) for part in module.modules()]
    buffers = [(buffer, buffer.detach().clone()) for buffer in module.buffers()]
    states = torch.get_rng_state(), random.getstate()
    try:
        with watch.quiet(), torch.no_grad():
            module.eval()
            yield
    finally:
        with watch.quiet(), torch.no_grad():
            module.train(any(flag for _, flag in flags))
            for part, flag in flags:
                part.training = flag
            for buffer, before in buffers:
                if buffer.shape == before.shape and not torch.equal(buffer, before):
                    buffer.data.copy_(before)  # a graph that holds the buffer must not see a new version of it
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        progress.calls, progress.graph_calls, progress.phase = counters


def examine(root: Root, watch: Watch, sizes: set[int]) -> dict[str, Any]:
    """Run the experiments on one model; return what they show.

    Args:
        root: The model.
        watch: What was seen of the run.
        sizes: Numbers of samples that are known to be a batch's.
    """
    told: dict[str, Any] = {}
    trial = Trial(root, watch)
    related = relations(trial.leaves, watch.losses.targets)
    with evaluating(root.module, watch):
        base = trial.run(0)
        told["evaluation"] = _repeats(trial, base)
        told["tokens"] = [_leak(trial, base, relation) for relation in related]
        told["mixing"] = _mixing(trial, base, sizes, related)
        told["smaller"] = smaller_batch(trial, samples_of(trial.leaves, sizes, related, trial.leaves))
    if related:
        root.kept = (root.inputs, list(zip(related, told["tokens"], strict=True)))
    return told


def _repeats(trial: Trial, base: list[Any]) -> dict[str, Any]:
    """Whether the model gives the same twice, with other random numbers."""
    watch = trial.watch
    watch.drawn = {}
    try:
        other = trial.run(1)
    finally:
        drawn, watch.drawn = watch.drawn, None
    pairs = [(a, b) for a, b in zip(base, other, strict=False) if a.shape == b.shape]
    return {
        "same": all(_largest(a - b) <= NOISE * _largest(a) for a, b in pairs) and len(base) == len(other),
        "outputs": len(pairs),
        "drawn": [{"function": name, "line": line, "share": share} for (name, line), share in (drawn or {}).items()],
    }


def _largest(tensor: Any) -> float:
    return float(torch.nan_to_num(tensor, posinf=0.0, neginf=0.0).abs().max()) if tensor.numel() else 0.0


def _leak(trial: Trial, base: list[Any], relation: Relation) -> dict[str, Any]:
    """Change the later half of the tokens; say how far earlier predictions move."""
    told: dict[str, Any] = {"input": relation.leaf, "shift": relation.shift, "moved": None, "own": None, "positions": 0}
    leaf = trial.leaves[relation.leaf]
    given = leaf if relation.time else leaf.t()
    half = given.shape[1] // 2
    changed = given.clone()
    changed[:, half:] = _others(given[:, half:], given)
    other = trial.run(0, {relation.leaf: changed if relation.time else changed.t().contiguous()})
    for before, after in zip(base, other, strict=False):
        first = by_position(before, given.shape, relation)
        second = by_position(after, given.shape, relation)
        if first is None or second is None or first.shape != second.shape:
            continue
        early, late = _largest(first[:, :half] - second[:, :half]), _largest(first[:, half:] - second[:, half:])
        if late > 0:
            told["moved"] = max(told["moved"] or 0.0, early / late)
            told["own"] = max(told["own"] or 0.0, _largest(first[:, half] - second[:, half]) / late)
            told["positions"] = half
    return told


def _others(part: Any, given: Any) -> Any:
    """Return other tokens of the same batch in the place of some."""
    known = given.unique()
    if known.numel() < 2:
        return torch.where(part > 0, part - 1, part + 1)
    place = torch.searchsorted(known, part.contiguous())
    step = torch.randint(1, int(known.numel()), part.shape)
    return known[(place + step) % known.numel()]


def _mixing(trial: Trial, base: list[Any], sizes: set[int], related: list[Relation]) -> dict[str, Any] | None:
    """Change one sample; say whether the outputs of the others move. None where no dimension is known as the samples'."""
    tensors = {at: leaf for at, leaf in enumerate(trial.leaves) if isinstance(leaf, torch.Tensor) and leaf.dim() >= 2}
    samples = samples_of(list(tensors.values()), sizes, related, trial.leaves)
    if samples is None:
        return None
    changed, one = {}, (samples - 1) // 2
    for at, leaf in tensors.items():
        if leaf.dtype == torch.bool or len(set(leaf.shape[:2])) == 1:
            continue
        other = leaf.clone()
        if leaf.is_floating_point():
            other[one] = torch.randn_like(leaf[one]) * leaf.float().std().to(leaf.dtype) + leaf.float().mean().to(
                leaf.dtype
            )
        elif leaf.unique().numel() > 2:
            other[one] = _others(leaf[one], leaf)
        else:
            continue
        changed[at] = other
    if not changed:
        return None
    moved, outputs = 0.0, 0
    for before, after in zip(base, trial.run(0, changed), strict=False):
        if before.shape != after.shape or before.dim() < 2 or before.shape[0] != samples or before.shape[1] == samples:
            continue
        moves = [_largest(before[at] - after[at]) for at in range(samples)]
        own, rest = moves[one], max(moves[:one] + moves[one + 1 :])
        if own > 0 or rest > 0:
            moved, outputs = max(moved, rest / max(own, rest)), outputs + 1
    return {"samples": samples, "moved": moved, "outputs": outputs} if outputs else None
