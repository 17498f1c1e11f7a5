"""What functions return beside each other, as far as their text tells: whether one value goes into the others."""

from __future__ import annotations

import ast

from preflight.check.queries.names_in_text import names_in
from preflight.source.script import Script

_CUT = frozenset({"detach", "item", "no_grad", "inference_mode", "tolist", "numpy"})
Function = ast.FunctionDef | ast.AsyncFunctionDef


def returned_alone(call: ast.Call, place: int, count: int, scripts: list[Script]) -> bool:
    """Whether all that may be called returns so many values, and what stands at this place goes into none of the others."""
    word = getattr(call.func, "attr", getattr(call.func, "id", ""))
    functions = [one for script in scripts for one in script.nodes(ast.FunctionDef)]
    called = [one for one in functions if one.name == word] or [one for one in functions if one.name == "forward"]
    returns = [
        (one, back.value.elts)
        for one in called
        for back in ast.walk(one)
        if isinstance(back, ast.Return) and isinstance(back.value, ast.Tuple) and len(back.value.elts) == count
    ]
    return bool(returns) and all(_stands_alone(function, parts, place) for function, parts in returns)


def _stands_alone(function: Function, parts: list[ast.expr], place: int) -> bool:
    """Whether a returned value is none that gradients were cut from, and goes into none of the values beside it."""
    own = parts[place]
    if not isinstance(own, ast.Name):
        return False  # what is kept by an object, or made in this place, may be part of the others
    if any(isinstance(one, ast.Attribute) and one.attr == "backward" for one in ast.walk(function)):
        return False  # it is trained with where it is computed
    made = [one for one in ast.walk(function) if isinstance(one, (ast.Assign, ast.AugAssign))]
    cut = any(is_cut(one.value) for one in made if own.id in _targets(one))
    if cut or not _is_only_returned(function, own.id):
        return False
    others = {name for at, part in enumerate(parts) if at != place for name in names_in(part)}
    for _ in made:  # what the others are made of, as far as names tell
        others |= {
            name
            for one in made
            if _targets(one) & others and own.id not in _targets(one)
            for name in names_in(one.value)
        }
    return own.id not in others


def _is_only_returned(function: Function, name: str) -> bool:
    """Whether a name is read where values are returned and where it is itself made, and gradients are recorded there."""
    aside: set[int] = set()
    for one in ast.walk(function):
        if isinstance(one, ast.Return) or (isinstance(one, (ast.Assign, ast.AugAssign)) and name in _targets(one)):
            aside |= {id(part) for part in ast.walk(one)}
        cut = isinstance(one, ast.With) and any(is_cut(item.context_expr) for item in one.items)
        if cut and any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(one)):
            return False
    reads = (one for one in ast.walk(function) if isinstance(one, ast.Name) and one.id == name)
    return all(id(one) in aside for one in reads)


def is_cut(value: ast.AST) -> bool:
    """Whether a value was taken out of the graph, or is a number."""
    return isinstance(value, ast.Constant) or (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _CUT
    )


def _targets(statement: ast.Assign | ast.AugAssign) -> set[str]:
    held = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return {name for target in held for name in names_in(target)}
