"""A batch of another size: which number is that of the samples, and what a model does with one sample fewer."""

from __future__ import annotations

import os
import traceback
from typing import Any

import torch

_SHAPES = (RuntimeError, ValueError, IndexError)


def samples_of(given: list[Any], sizes: set[int], related: list[Any], leaves: list[Any]) -> int | None:
    """Return the number of samples of a batch; None where no dimension is known as that of the samples.

    Args:
        given: Values; the tensors among them must have the samples first.
        sizes: Numbers of samples that are known to be a batch's.
        related: What the targets have to do with the model's inputs.
        leaves: The model's inputs.
    """
    firsts = {leaf.shape[0] for leaf in given if isinstance(leaf, torch.Tensor) and leaf.dim()}
    known = set(sizes) | {leaves[r.leaf].shape[0] for r in related if r.time == 1}
    return firsts.pop() if len(firsts) == 1 and firsts <= known and min(firsts) > 1 else None


def smaller_batch(trial: Any, samples: int | None) -> dict[str, Any] | None:
    """Run a model on one sample fewer; say what it raises. None where it cannot be said what a sample is."""
    if samples is None or samples < 3:
        return None
    fewer = {
        at: leaf[: samples - 1] for at, leaf in enumerate(trial.leaves) if isinstance(leaf, torch.Tensor) and leaf.dim()
    }
    progress = trial.watch.progress
    try:
        trial.run(0, fewer)
    except _SHAPES as error:
        own = [frame for frame in traceback.extract_tb(error.__traceback__) if progress.owns(frame.filename)]
        place = f"{os.path.relpath(os.path.realpath(own[-1].filename), progress.root)}:{own[-1].lineno}" if own else ""
        text = str(error).strip().splitlines()
        return {"samples": samples, "error": (text[0] if text else type(error).__name__)[:200], "line": place}
    return {"samples": samples, "error": "", "line": ""}
