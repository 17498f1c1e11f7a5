"""By which hold a script's batch can be changed: the places where its number may stand, the surest first."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from preflight.dryrun.launch import Job
from preflight.vocabulary.profile import Profile


class Place(msgspec.Struct, frozen=True):
    """A number in the person's own code; line and column from 1."""

    path: str
    line: int
    column: int


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """A way to change the batch.

    Attributes:
        how: ``argument``, ``constant``, ``loader`` or ``rows``.
        before: The number that stands there.
        places: The numbers of a ``constant``.
        argument: Where on the command line it stands.
    """

    how: str
    before: int
    places: tuple[Place, ...] = ()
    argument: int | None = None

    def changes(self, value: int) -> tuple[dict[str, Any], ...]:
        """Return the changes that make the batch another one."""
        if self.how in ("loader", "rows"):
            return ({"name": self.how, "before": self.before, "value": value},)
        constants = (
            {
                "name": "constant",
                "path": p.path,
                "line": p.line,
                "column": p.column,
                "before": self.before,
                "value": value,
            }
            for p in self.places
        )
        return (*constants, {"name": "loader", "whole": value})

    def arguments(self, job: Job, value: int) -> tuple[str, ...]:
        """Return the command line with another batch."""
        if self.argument is None:
            return job.arguments
        given = list(job.arguments)
        name, equals, _ = given[self.argument].rpartition("=")
        given[self.argument] = f"{name}{equals}{value}"
        return tuple(given)

    def shown(self, job: Job, root: str) -> str | None:
        """Return where the number stands, as a person is told it."""
        if self.argument is not None:
            given = job.arguments[self.argument]
            return given.partition("=")[0] if "=" in given else job.arguments[self.argument - 1]
        if not self.places:
            return None
        first = self.places[0]
        return f"{os.path.relpath(first.path, root)}:{first.line}"


def holds(job: Job, seen: Profile, told: int | None, place: Place | None) -> list[Hold]:
    """Return the ways in which the batch may be changed, the surest first.

    Args:
        job: The script as it is.
        seen: Its run.
        told: The batch that reading the script gave.
        place: Where it stands.
    """
    found: list[Hold] = []
    for number in candidates(seen, told):
        found += _argument(job, number)
        if place is not None and number == told:
            found.append(Hold(how="constant", before=number, places=(place,)))
        found += _constants(job, seen, number)
        found.append(Hold(how="loader", before=number))
        found.append(Hold(how="rows", before=number))
    distinct: dict[tuple[Any, ...], Hold] = {(h.how, h.before, h.places, h.argument): h for h in found}
    training = {row.batch_size for row in seen.loaders if row.trains}
    made = any(row.batch_size is None for row in seen.loaders if row.trains)
    return [h for h in distinct.values() if h.how != "loader" or h.before in training or made]


def candidates(seen: Profile, told: int | None) -> list[int]:
    """Return what may be the batch: what was read, what a loader was asked for, the first dimension of what a model is given."""
    found = [told] if told is not None else []
    found += [row.batch_size for row in seen.loaders if row.trains and row.batch_size]
    found += [shape[0] for given in seen.inputs[:1] for shape in given.shapes[:1] if shape]
    sizes = {size for given in seen.inputs for shape in given.shapes for size in shape}
    return [n for n in dict.fromkeys(found) if n > 0 and any(size % n == 0 for size in sizes)]


def changed(before: Profile, after: Profile, number: int, value: int) -> bool:
    """Whether the batch is really another one: a dimension of what the first model is given grew in proportion."""
    for one, two in zip(before.inputs[:1], after.inputs[:1], strict=False):
        for first, second in zip(one.shapes, two.shapes, strict=False):
            if len(first) != len(second):
                continue
            if any(a != b and a * value == b * number for a, b in zip(first, second, strict=True)):
                return True
    return False


def _argument(job: Job, number: int) -> Iterator[Hold]:
    given = job.arguments
    for at, word in enumerate(given):
        name, _, value = word.rpartition("=")
        before = name or (given[at - 1] if at else "")
        if value == str(number) and _is_batch(before.lstrip("-")):
            yield Hold(how="argument", before=number, argument=at)


def _is_batch(name: str) -> bool:
    low = name.lower().rpartition(".")[2].replace("-", "_")
    return "batch" in low or low in ("bs", "bsz", "b")


def _constants(job: Job, seen: Profile, number: int) -> Iterator[Hold]:
    """Numbers of that size that are called a batch, in the script or else in one file of its own that ran."""
    script = os.path.realpath(job.script)
    others = [path for path in seen.reached if os.path.realpath(path) != script]
    for path in (script, *sorted(others)):
        places = tuple(Place(path, *where) for where in _named(path, number))
        if places:
            yield Hold(how="constant", before=number, places=places)


def _named(path: str, number: int) -> list[tuple[int, int]]:
    try:
        tree = ast.parse(Path(path).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return []
    found = []
    for node in ast.walk(tree):
        for name, value in _pairs(node):
            if (
                isinstance(value, ast.Constant)
                and type(value.value) is int
                and value.value == number
                and _is_batch(name)
            ):
                found.append((value.lineno, value.col_offset + 1))
    return sorted(set(found))


def _pairs(node: ast.AST) -> Sequence[tuple[str, ast.expr]]:
    """Return names with the expressions that they are given: assignments, keywords, entries, defaults."""
    if isinstance(node, ast.Assign):
        return [(_last(target), node.value) for target in node.targets]
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        return [(_last(node.target), node.value)]
    if isinstance(node, ast.Dict):
        return [
            (k.value, v)
            for k, v in zip(node.keys, node.values, strict=True)
            if isinstance(k, ast.Constant) and isinstance(k.value, str)
        ]
    if isinstance(node, ast.arguments):
        names = [*node.posonlyargs, *node.args]
        rest = zip(names[len(names) - len(node.defaults) :], node.defaults, strict=True)
        only = (
            (name, value) for name, value in zip(node.kwonlyargs, node.kw_defaults, strict=True) if value is not None
        )
        return [(name.arg, value) for name, value in (*rest, *only)]
    if isinstance(node, ast.Call):
        pairs = [(word.arg, word.value) for word in node.keywords if word.arg]
        options = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        # parser.add_argument("--batch-size", default=64)
        return pairs + [(options[-1].lstrip("-"), value) for name, value in pairs if options and name == "default"]
    return []


def _last(target: ast.expr) -> str:
    if isinstance(target, ast.Name):
        return target.id
    return target.attr if isinstance(target, ast.Attribute) else ""
