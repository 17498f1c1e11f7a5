"""What a dry run saw of gradients that several backward passes add to before one step."""

from __future__ import annotations

from preflight.check.observed.run import Run
from preflight.check.observed.updates import plain_updates
from preflight.vocabulary.seen import Observation

_MEANS = frozenset(
    "nll_loss_forward nll_loss2d_forward mse_loss smooth_l1_loss huber_loss binary_cross_entropy "
    "binary_cross_entropy_with_logits mean".split()
)
_REDUCED = (
    "nll_loss",
    "mse_loss",
    "smooth_l1_loss",
    "huber_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
)


def only_updates(run: Run) -> list[Observation]:
    """The steps of the only optimizer, from two on; nothing where several step, or the passes come from several lines."""
    found = plain_updates(run)
    if not run.complete or len(found) != 1 or sum(made.steps > 0 for made in run.optimizers) != 1:
        return []
    _, _, steps = found[0]
    lines = {line for item in steps for line in item.data["lines"]}
    return steps if len(lines) == 1 else []


def passes_before(run: Run, step: Observation) -> list[Observation]:
    """The backward passes since the step before, in order."""
    before = [item.order for item in run.seen("update") if item.order < step.order]
    return [item for item in run.seen("backward") if max(before, default=0) < item.order < step.order]


def one_batch_each(run: Run, step: Observation) -> bool:
    """Whether the network was called once with gradients for each of the backward passes of a step."""
    passes = passes_before(run, step)
    if not passes:
        return False
    before = max((item.order for item in run.seen("update") if item.order < step.order), default=0)
    calls = [
        i for i in run.seen("call") if before < i.order < passes[-1].order and i.data["graph"] and i.data["training"]
    ]
    return len(calls) == len(passes)


def loss_of(run: Run, item: Observation) -> tuple[str, str]:
    """The operator that gave the loss of a backward pass, and its line; what the scaler multiplied by is left out."""
    path, places = list(item.data["path"]), list(item.data["places"])
    scaled = [i for i in run.seen("scaler scale") if i.order < item.order]
    if scaled and path and path[0] == "mul":
        path, places = path[1:], places[1:]
    return (path[0], places[0]) if path else ("", "")


def is_plain_mean(run: Run, item: Observation) -> bool:
    """Whether a backward pass starts from a mean over its batch, as it came out of the loss."""
    operator, place = loss_of(run, item)
    if operator not in _MEANS or item.data["elements"] != 1:
        return False
    told = [loss for loss in run.seen(*_REDUCED) if loss.line == place]
    return operator == "mean" or bool(told) and all(loss.data["reduction"] == 1 for loss in told)
