"""Tests of a parameter's name: ``"fc" not in name``, asked of one name at a time."""

from __future__ import annotations

import ast


def name_test(test: ast.expr, variable: str, name: str) -> bool | None:
    """Return what a test says of a name, or None where more than the name decides.

    Args:
        test: The test, as written.
        variable: The variable that holds the name.
        name: The name: ``layer4.0.conv1.weight``.
    """
    found = _worth(test, {variable: name})
    return found if isinstance(found, bool) else None


def _worth(node: ast.expr, texts: dict[str, str]) -> object:
    """The worth of an expression, given the texts that variables hold: text, a tuple of texts, a truth, or None."""
    if isinstance(node, ast.Name):
        return texts.get(node.id)
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, (str, bool, int)) else None
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        parts = tuple(_worth(part, texts) for part in node.elts)
        return parts if all(isinstance(part, str) for part in parts) else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _worth(node.operand, texts)
        return not inner if isinstance(inner, bool) else None
    if isinstance(node, ast.BoolOp):
        truths = [_worth(value, texts) for value in node.values]
        if not all(isinstance(truth, bool) for truth in truths):
            return None
        return all(truths) if isinstance(node.op, ast.And) else any(truths)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _compared(node.ops[0], _worth(node.left, texts), _worth(node.comparators[0], texts))
    if isinstance(node, ast.Call):
        return _called(node, texts)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):
        held, at = _worth(node.value, texts), node.slice.value
        return held[at] if isinstance(held, (str, tuple)) and -len(held) <= at < len(held) else None
    return None


def _compared(op: ast.cmpop, left: object, right: object) -> bool | None:
    if isinstance(op, (ast.In, ast.NotIn)) and isinstance(left, str) and isinstance(right, (str, tuple)):
        return (left in right) is isinstance(op, ast.In)
    if isinstance(op, (ast.Eq, ast.NotEq)) and isinstance(left, (str, int)) and isinstance(right, (str, int)):
        return (left == right) is isinstance(op, ast.Eq)
    return None


def _called(node: ast.Call, texts: dict[str, str]) -> object:
    """``name.startswith("fc")``, ``name.split(".")``, ``any(part in name for part in ("fc", "bias"))``."""
    function = node.func
    if isinstance(function, ast.Attribute) and not node.keywords:
        held, args = _worth(function.value, texts), [_worth(arg, texts) for arg in node.args]
        if not isinstance(held, str) or len(args) != 1 or not isinstance(args[0], (str, tuple)):
            return None
        if function.attr == "startswith":
            return held.startswith(args[0])
        if function.attr == "endswith":
            return held.endswith(args[0])
        return tuple(held.split(args[0])) if function.attr == "split" and isinstance(args[0], str) and args[0] else None
    if isinstance(function, ast.Name) and function.id in ("any", "all") and len(node.args) == 1:
        each = node.args[0]
        if not isinstance(each, (ast.GeneratorExp, ast.ListComp)) or len(each.generators) != 1:
            return None
        loop = each.generators[0]
        listed = _worth(loop.iter, texts)
        if not isinstance(loop.target, ast.Name) or loop.ifs or not isinstance(listed, tuple):
            return None
        truths = [_worth(each.elt, {**texts, loop.target.id: part}) for part in listed]
        if not all(isinstance(truth, bool) for truth in truths):
            return None
        return any(truths) if function.id == "any" else all(truths)
    return None
