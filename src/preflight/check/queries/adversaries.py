"""Generators and critics: which way each loss pushes the critic's score of real and of generated samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from preflight.check.queries.losses import is_loss
from preflight.check.queries.tensors import VIEWS, module_of, operand, operation
from preflight.check.queries.terms import Term, number, operands, terms
from preflight.check.queries.updates import Update, updates
from preflight.source.trace import Event, provenance
from preflight.source.training import loss_of
from preflight.source.values import Obj, Value, plain, settle

if TYPE_CHECKING:
    from preflight.check.context import Context

_RISING = frozenset({
    "relu", "leaky_relu", "elu", "softplus", "sigmoid", "logsigmoid", "log", "exp", "tanh", "mean", "sum", "clamp",
    "clip", "nn.BatchNorm1d", "nn.Softplus",
}) | VIEWS  # fmt: skip
_ONES, _ZEROS = frozenset({"ones", "ones_like", "new_ones"}), frozenset({"zeros", "zeros_like", "new_zeros"})
_FULL = frozenset({"full", "full_like", "new_full"})
_LABELLED = ("binary_cross_entropy", "binary_cross_entropy_with_logits", "mse_loss")


class Push(NamedTuple):
    """A term of a loss that a score enters.

    Attributes:
        term: The term.
        sign: +1 where the loss rises with the score, -1 where it falls.
    """

    term: Term
    sign: int


class Game(NamedTuple):
    """A critic and a generator that are trained in one loop.

    Attributes:
        real: What the critic's losses do with its score of real samples.
        generated: What they do with its score of generated samples.
        fooling: What the generator's losses do with that score.
    """

    real: list[Push]
    generated: list[Push]
    fooling: list[Push]


def games(context: Context) -> Iterator[Game]:
    """The pairs of optimizers that train a critic and a generator."""
    held = context.__dict__.get("_games")
    if held is None:
        held = context.__dict__["_games"] = list(_games(context))
    yield from held


def _games(context: Context) -> Iterator[Game]:
    every = [u for u in updates(context) if u.holding.complete and u.holding.members]
    for critic in every:
        for generator in every:
            if critic.loop is not generator.loop or critic.holding.members & generator.holding.members:
                continue
            mine = critic.holding.members
            pushes = [(p, _uses(p.term.value, generator)) for p in _pushes(context, critic, mine)]
            real, generated = [p for p, made in pushes if not made], [p for p, made in pushes if made]
            fooling = [p for p in _pushes(context, generator, mine) if _uses(p.term.value, generator)]
            if real and generated and fooling:
                yield Game(real, generated, fooling)


def _uses(value: Value, update: Update) -> bool:
    return any(id(part) in update.holding.members for part in provenance(value))


def _pushes(context: Context, update: Update, members: frozenset[int]) -> Iterator[Push]:
    """The terms of an optimizer's losses that a score of the critic enters, with the way they push it."""
    for backward in update.loop.backwards:
        after = [s for s in update.loop.steps if s.number > backward.number]
        loss = loss_of(backward)
        if loss is None or not after or min(after, key=lambda s: s.number) not in update.steps:
            continue
        for term in terms(loss):
            rising = _rising(context, term.value, members, backward)
            if rising is not None and term.factor != 0:
                yield Push(term, rising if term.factor > 0 else -rising)


def _rising(context: Context, value: Value, members: frozenset[int], backward: Event) -> int | None:
    """Whether a value rises (+1) or falls (-1) with the critic's score; None where it does neither for sure."""
    sign = 1
    for _ in range(30):
        base = settle(value)
        if not isinstance(base, Obj):
            return None
        kind = is_loss(base)
        name = operation(base)
        pair = operands(base)
        if kind is not None:
            used = context.reading.event_of(base) or backward
            label = _constant(context, base.argument(1, "target"), used) if kind in _LABELLED else None
            score = base.argument(0, "input")
            known = score is not None and label is not None and _from(score, members)
            return None if not known or label is None else sign * (-1 if label > 0.5 else 1)
        if name in ("+", "-", "add", "sub", "*", "mul", "/", "div") and pair is not None:
            left, right = _from(pair[0], members), _from(pair[1], members)
            if left == right:
                return None
            value = pair[0] if left else pair[1]
            if name in ("-", "sub"):
                sign = sign if left else -sign
            elif name not in ("+", "add"):
                times = number(pair[1] if left else pair[0])
                if times is None or times == 0 or (name in ("/", "div") and not left):
                    return None
                sign = sign if times > 0 else -sign
        elif name == "neg" and (inner := operand(base)) is not None:
            value, sign = inner, -sign
        elif name in _RISING and (inner := operand(base)) is not None:
            value = inner
        elif name is not None and not name.startswith(("nn.", "model:")):
            return None
        else:
            scored = module_of(base)  # the critic itself, and not a generator that it judged in between
            return sign if scored is not None and id(scored) in members else None
    return None


def _from(value: Value, members: frozenset[int]) -> bool:
    return any(id(part) in members for part in provenance(value))


def _constant(context: Context, value: Value | None, before: Event) -> float | None:
    """The one number that a tensor of labels holds when it is used."""
    for _ in range(20):
        base = settle(value) if value is not None else None
        if not isinstance(base, Obj):
            return None
        filled = [
            e
            for e in context.trace.calls(".fill_")
            if e.number < before.number
            and e.receiver is not None
            and _base(e.receiver) is base
            and e.result is not base
        ]
        name = operation(base)
        if filled and name != "fill_":
            last = filled[-1].args[0] if filled[-1].args else None
            return number(last)
        if name in _ONES or name in _ZEROS:
            return 1.0 if name in _ONES else 0.0
        if name in _FULL:
            return number(base.argument(1, "fill_value"))
        if name == "fill_":
            return number(base.argument(0, "value"))
        if name == "tensor":
            told = plain(base.argument(0, "data"))
            return float(told) if isinstance(told, (int, float)) else None
        if base.name == "torch.autograd.Variable":
            value = base.argument(0, "data")
        elif name in VIEWS or name in ("detach", "requires_grad_"):
            value = operand(base)
        else:
            return None
    return None


def _base(value: Value) -> Value:
    """The tensor under ``.data``."""
    base = settle(value)
    while isinstance(base, Obj) and operation(base) == "data" and base.receiver is not None:
        base = settle(base.receiver)
    return base
