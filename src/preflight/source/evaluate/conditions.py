"""Tests: their value, and what following one side says about the names in them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from preflight.source.values import Choice, Known, Obj, Unknown, Value

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine


def test_value(m: Machine, node: ast.expr) -> Value:
    """The value of a test. ``__name__ == "__main__"`` holds for the script that is checked."""
    from preflight.source.evaluate.expressions import evaluate

    return evaluate(m, node)


def implied(test: Value, polarity: bool, depth: int = 0) -> Iterator[tuple[int, bool]]:
    """What one side of a test says of it and of its parts, by identity: of ``not a``, of all of ``a and b`` that holds."""
    yield id(test), polarity
    if isinstance(test, Obj) and test.kind == "op" and depth < 6:
        if test.name == "not":
            yield from implied(test.args[0], not polarity, depth + 1)
        elif test.name == ("and" if polarity else "or"):
            for part in test.args:
                yield from implied(part, polarity, depth + 1)


def narrowed(m: Machine, node: ast.expr, polarity: bool) -> Iterator[tuple[str, Value]]:
    """Names whose possible values shrink on one side of a test."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield from narrowed(m, node.operand, not polarity)
    elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And) is polarity:
        for part in node.values:
            yield from narrowed(m, part, polarity)
    elif isinstance(node, ast.Name):
        yield from _keep(m, node.id, lambda option: _truthy(option) is not (not polarity))
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.left, ast.Name):
        right = node.comparators[0]
        operator = node.ops[0]
        if isinstance(right, ast.Constant) and isinstance(operator, (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)):
            wanted = isinstance(operator, (ast.Is, ast.Eq)) is polarity
            constant = right.value
            yield from _keep(m, node.left.id, lambda option: _equal(option, constant) is not (not wanted))
            value = m.lookup(node.left.id)
            if wanted and isinstance(value, Unknown):
                yield node.left.id, Known(constant, value.site, "from the test of this branch")


def _keep(m: Machine, name: str, keep: object) -> Iterator[tuple[str, Value]]:
    value = m.lookup(name)
    if isinstance(value, Choice):
        options = tuple(option for option in value.options if keep(option))  # type: ignore[operator]
        if options and len(options) < len(value.options):
            preferred = None
            if value.preferred is not None and value.options[value.preferred] in options:
                preferred = options.index(value.options[value.preferred])
            yield name, options[0] if len(options) == 1 else Choice(options, preferred, value.test)


def _truthy(option: Value) -> bool | None:
    from preflight.source.evaluate.truth import truth

    return truth(option)


def _equal(option: Value, constant: object) -> bool | None:
    if isinstance(option, Known):
        return option.value is constant or (option.value == constant and type(option.value) is type(constant))
    if isinstance(option, Unknown):
        return None
    return False if constant is None else None
