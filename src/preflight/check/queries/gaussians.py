"""Gaussians of a variational loss: the divergence from the standard normal, told by its terms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from preflight.check.queries.tensors import VIEWS, operand, operation, origin
from preflight.check.queries.terms import Term, loss_terms
from preflight.source.values import Obj, Value

if TYPE_CHECKING:
    from preflight.check.context import Context


class Divergence(NamedTuple):
    """The divergence of a Gaussian from the standard normal inside a loss.

    ``KL = 0.5 * sum(mu^2 + exp(v) - v - 1)`` with ``v`` the logarithm of the variance (Kingma and Welling, 2014, appendix B).

    Attributes:
        log_variance: ``v``.
        variance: The term ``exp(v)``; its factor is positive where the divergence is made small.
    """

    log_variance: Obj
    variance: Term


def divergences(context: Context) -> Iterator[Divergence]:
    """The divergences in the training losses: a value and its exponential, added with opposite signs and equal weight."""
    seen: set[int] = set()
    for terms in loss_terms(context):
        plain = {id(base): (base, term) for term in terms if (base := seen_through(term.value)) is not None}
        for term in terms:
            made = seen_through(term.value)
            inner = seen_through(operand(made)) if made is not None and operation(made) == "exp" else None
            if inner is None or id(inner) not in plain or id(made) in seen:
                continue
            other = plain[id(inner)][1]
            if other.scale == term.scale and other.factor == -term.factor:
                seen.add(id(made))
                yield Divergence(inner, term)


def seen_through(value: Value | None) -> Obj | None:
    """The operation that made a value, whatever rearranged it since."""
    return origin(value, VIEWS, strict=True)
