"""Where what is computed at a line goes nowhere but where the program was seen to bring it, as far as its text tells.

A loss that no gradient came to in some steps may be passed back in later ones. Where nothing between the line that computes
it and ``backward`` depends on a condition, what happens in one step happens in each.
"""

from __future__ import annotations

import ast
from typing import Any

from .texts import FUNCTIONS, Texts, word

_ENDS = frozenset(
    {
        *("print", "float", "str", "repr", "format", "round", "isfinite", "isnan", "isinf", "backward"),
        *("log", "info", "debug", "add_scalar", "add_scalars", "log_metric", "set_postfix", "set_description"),
    }
)
"""Functions and methods that give back nothing through which gradients could come."""
_READ = frozenset({"item", "detach", "tolist", "shape", "dtype", "device", "backward", "numel", "dim", "size"})
_THROUGH = frozenset({"sum", "stack", "mean", "cat", "scale", "add", "list", "tuple", "dict", "enumerate"})
_KEEPING = frozenset({"append", "update"})
_CONDITIONS = (ast.If, ast.IfExp, ast.BoolOp, ast.Try, ast.While, ast.Match)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_JUMPS = (ast.Continue, ast.Return, ast.Yield, ast.YieldFrom)
_PASSING = (ast.BinOp, ast.UnaryOp, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.Starred)
_BUILDING = (ast.ListComp, ast.GeneratorExp, ast.DictComp)
_ENDING = (ast.FormattedValue, ast.Expr, ast.Compare)


def goes_nowhere_else(texts: Texts, path: str, line: int) -> bool:
    """Whether what a program computes at a line is used in each round of the loop around it as in each other one.

    Args:
        texts: The program's files.
        path: The file.
        line: The line.

    Returns:
        True where that is sure, and all of the program's backward passes stand in that loop, too; False where the text
        does not tell.
    """
    if texts.hides or path not in texts.trees:
        return False
    inside = [
        node
        for node in ast.walk(texts.trees[path])
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign))
        and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return len(inside) == 1 and not texts.is_dead(inside[0]) and _Round(texts, inside[0]).is_plain()


class _Round:
    """A statement, and the loop or the function that it stands in."""

    def __init__(self, texts: Texts, statement: Any) -> None:
        self.texts = texts
        self.statement = statement
        self.scope = texts.function(statement)
        passes = [*texts.loads.get("backward", []), *filter(self._is_call, texts.loads.get("grad", []))]
        self.passes = [node for node in passes if not texts.is_dead(node)]
        rounds = [one for one in texts.above(statement) if isinstance(one, (*_LOOPS, *FUNCTIONS))]
        # The first of them with a backward pass: it must have all, or one is made otherwise than in each round.
        first = next((one for one in rounds if any(self._is_in(one, node) for node in self.passes)), None)
        self.around = first if all(self._is_in(first, node) for node in self.passes) else None
        self.names: set[str] = set()
        self.conditions = self._conditions(statement)

    def is_plain(self) -> bool:
        """Whether nothing depends on a condition."""
        parts = ast.walk(self.statement.value)
        if self.around is None or any(isinstance(one, (ast.IfExp, ast.BoolOp)) for one in parts):
            return False
        last = getattr(self.around, "body", [None])[-1]
        jumps = [one for one in ast.walk(self.around) if self._jumps(one) and one is not last]
        if jumps or not all(map(self._is_in_round, self.passes)):
            return False
        targets = self.statement.targets if isinstance(self.statement, ast.Assign) else [self.statement.target]
        return all(self._joins(target) for target in targets) and all(map(self._is_in_round, self._stores()))

    def _jumps(self, node: ast.AST) -> bool:
        """Whether the rest of a round may be left out, or that of a loop within it."""
        if isinstance(node, ast.Break):
            return next(one for one in self.texts.above(node) if isinstance(one, _LOOPS)) is not self.around
        return isinstance(node, _JUMPS)

    def _is_in(self, around: ast.AST | None, node: ast.AST) -> bool:
        return any(one is around for one in self.texts.above(node))

    def _is_call(self, node: ast.AST) -> bool:
        return isinstance(self.texts.parents[node], ast.Call)

    def _conditions(self, node: ast.AST) -> set[tuple[ast.AST, ast.AST]]:
        """The conditions that a node stands under, each with the branch; a loop over other things may have no rounds."""
        found, below = set[tuple[ast.AST, ast.AST]](), node
        for one in self.texts.above(node):
            often = isinstance(one, (ast.For, ast.AsyncFor)) and below is not one.iter and not self._holds(one.iter)
            if often or isinstance(one, _CONDITIONS) or (isinstance(one, ast.comprehension) and one.ifs):
                found.add((one, _branch(one, below)))
            if one is self.scope:
                break
            below = one
        return found

    def _holds(self, node: ast.AST) -> bool:
        """Whether a name that may hold it stands in an expression."""
        return any(isinstance(one, ast.Name) and one.id in self.names for one in ast.walk(node))

    def _is_in_round(self, node: ast.AST) -> bool:
        """Whether a node is come to in each round in which the statement is."""
        inside = self._is_in(self.around, node)
        return inside and self.texts.function(node) is self.scope and self._conditions(node) <= self.conditions

    def _stores(self) -> list[ast.AST]:
        """Where the names that may hold it are given something, in this function."""
        return [
            node
            for node in self.texts.nodes
            if isinstance(node, ast.Name)
            and node.id in self.names
            and not isinstance(node.ctx, ast.Load)
            and self.texts.function(node) is self.scope
            and self._is_in(self.around, node)
        ]

    def _joins(self, target: Any) -> bool:
        """Follow a name that may hold it; tell whether all that is done with it is known."""
        if isinstance(target, (ast.Tuple, ast.List)):
            return all(map(self._joins, target.elts))
        if not isinstance(target, ast.Name):
            return False
        if target.id in self.names:
            return True
        self.names.add(target.id)
        return all(self._goes(load) for load in self.texts.loads.get(target.id, []) if self._may_be(load))

    def _may_be(self, load: ast.AST) -> bool:
        """Whether a name is that of this function, and not one that another has for itself."""
        if not isinstance(load, ast.Name):
            return False
        return self.scope is None or any(one is self.scope for one in self.texts.above(load))

    def _goes(self, node: Any) -> bool:
        """Whether it is known where an expression goes, and whether it does so in each round."""
        above: Any = self.texts.parents[node]
        if isinstance(above, ast.Attribute):
            call = self.texts.parents[above]
            return above.attr in _READ or (isinstance(call, ast.Call) and call.func is above and self._goes(call))
        if isinstance(above, (ast.Call, ast.keyword)):
            return self._given(above if isinstance(above, ast.Call) else self.texts.parents[above])
        if isinstance(above, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            targets = above.targets if isinstance(above, ast.Assign) else [above.target]
            return self._is_in_round(node) and all(map(self._joins, targets))
        if isinstance(above, (ast.For, ast.comprehension)):
            return self._is_in_round(node) and self._joins(above.target)
        if isinstance(above, _BUILDING):
            return all(self._holds(one.iter) and not one.ifs for one in above.generators) and self._goes(above)
        if isinstance(above, _PASSING):
            return self._goes(above)
        return isinstance(above, _ENDING)

    def _given(self, call: Any) -> bool:
        name = word(call.func) if isinstance(call, ast.Call) else ""
        if name in _KEEPING and isinstance(call.func, ast.Attribute):
            return self._is_in_round(call) and self._joins(call.func.value)
        return name in _ENDS or (name in _THROUGH and name not in self.texts.functions and self._goes(call))


def _branch(condition: Any, below: ast.AST) -> ast.AST:
    """The first node of the branch of a condition that another node stands in."""
    for branch in (getattr(condition, name, None) for name in ("body", "orelse", "handlers", "finalbody", "cases")):
        if isinstance(branch, list) and below in branch:
            return branch[0]  # type: ignore[no-any-return]
    return below
