"""Whether a program reckons with a model that gives no loss."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from preflight.check.context import Context


def asks_for_loss(context: Context) -> bool:
    """Whether the program asks anywhere if there is a loss: ``if outputs.loss is not None``."""
    for script in context.reading.scripts:
        nodes = list(ast.walk(script.tree))
        names = {"loss"}  # and whatever else a loss of a model is called
        for node in nodes:
            if isinstance(node, ast.Assign) and any(_is_loss(part, set()) for part in ast.walk(node.value)):
                names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        if any(_is_loss(asked, names) for node in nodes for asked in _asked(node)):
            return True
    return False


def _is_loss(node: ast.AST, names: set[str]) -> bool:
    """Whether an expression is an attribute that is called loss, or a variable of one of these names."""
    return (isinstance(node, ast.Attribute) and node.attr == "loss") or (
        isinstance(node, ast.Name) and node.id in names
    )


def _asked(node: ast.AST) -> Iterator[ast.AST]:
    """What a piece of code compares with None or takes for true or false, or asks the type of."""
    if isinstance(node, ast.Compare) and any(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
        yield node.left
    elif isinstance(node, (ast.If, ast.IfExp)):
        yield node.test
    elif isinstance(node, ast.BoolOp):
        yield from node.values
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
        yield from node.args[:1]
