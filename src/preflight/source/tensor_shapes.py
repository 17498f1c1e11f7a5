"""The shape of a tensor that a script makes from numbers: a factory's sizes, through operations that change little."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from preflight.source.values import Known, Obj, Seq, Value, plain, settle

_UNCLEAR: Any = object()
_DEEPEST = 12

_SIZED = frozenset("zeros ones empty rand randn FloatTensor Tensor LongTensor DoubleTensor HalfTensor".split())
_SAME = frozenset(
    "normal_ uniform_ to cuda float half double bfloat16 clone zero_ fill_ requires_grad_ contiguous detach exponential_ exp "
    "log sqrt rsqrt sin cos tanh sigmoid abs neg pow square clamp long int bool type softmax flip tril triu cumsum div mul "
    "add sub mul_ add_ sub_ div_ trunc_normal_ log_ clamp_ zeros_like ones_like empty_like rand_like randn_like".split()
)


def shape_of(value: Value | None, depth: int = 0) -> tuple[int, ...] | None:
    """Return the shape of a tensor, or None where it is not known."""
    obj = settle(value) if value is not None else None
    if not isinstance(obj, Obj) or depth > _DEEPEST:
        return None
    if obj.kind == "op":
        return _spread(obj, depth) if obj.name in ("*", "/", "+", "-", "**") else None
    if obj.kind == "item":
        before = shape_of(obj.receiver, depth + 1)
        return _picked(before, obj.args[0]) if before is not None and obj.args else None
    if obj.name.startswith("torch.nn.init.") and obj.args:
        return shape_of(obj.args[0], depth + 1)
    if obj.kind == "call" and obj.name.startswith(("torch.", ".")):
        return _called(obj, obj.name.rpartition(".")[2], depth)
    return None


def _called(obj: Obj, name: str, depth: int) -> tuple[int, ...] | None:
    method = obj.name.startswith(".")
    source = obj.receiver if method else (obj.args[0] if obj.args else None)
    rest = list(obj.args) if method else list(obj.args[1:])
    if not method and (made := _factory(obj, name)) is not None:
        return made
    if name in _SAME:
        return shape_of(source, depth + 1)
    before = shape_of(source, depth + 1)
    if before is None:
        return None
    if name == "unsqueeze":
        at = plain(rest[0] if rest else obj.kwargs.get("dim"))
        if not isinstance(at, int) or not -len(before) - 1 <= at <= len(before):
            return None
        place = at if at >= 0 else at + len(before) + 1
        return (*before[:place], 1, *before[place:])
    if name in ("t", "T") and len(before) == 2:
        return before[1], before[0]
    if name in ("view", "reshape", "repeat"):
        sizes = _whole(rest)
        if sizes is None or obj.open_args:
            return None
        return repeated(before, sizes) if name == "repeat" else filled(sizes, math.prod(before))
    return None


def _picked(before: tuple[int, ...], key: Value) -> tuple[int, ...] | None:
    """Return the shape of ``x[key]`` for numbers, slices, ``None`` and ``...``; None for what else may stand there."""
    base = settle(key)
    keys = [settle(item) for item in base.items] if isinstance(base, Seq) and base.kind == "tuple" else [base]
    rest = [at for at, one in enumerate(keys) if isinstance(one, Known) and one.value is ...]
    taken = sum(not (isinstance(one, Known) and one.value in (None, ...)) for one in keys)
    if len(rest) > 1 or taken > len(before):
        return None
    at = rest[0] if rest else len(keys)
    whole: list[Value | None] = [None] * (len(before) - taken)
    left: list[int] = list(before)
    out: list[int] = []
    for one in [*keys[:at], *whole, *keys[at + 1 :]]:
        if isinstance(one, Known) and one.value is None:
            out.append(1)
            continue
        size = left.pop(0)
        if isinstance(one, Known) and type(one.value) is int:
            continue
        kept = _sliced(size, one) if one is not None else size
        if kept is None:
            return None
        out.append(kept)
    return tuple(out)


def _sliced(size: int, key: Value) -> int | None:
    """Return how many rows a slice leaves of so many, or None where its bounds are not known."""
    if not (isinstance(key, Obj) and key.kind == "op" and key.name == "slice" and len(key.args) == 3):
        return None
    bounds = [plain(arg, _UNCLEAR) for arg in key.args]
    if any(bound is not None and type(bound) is not int for bound in bounds) or bounds[2] == 0:
        return None
    return len(range(size)[slice(*bounds)])


def _factory(obj: Obj, name: str) -> tuple[int, ...] | None:
    if name in _SIZED:
        size = obj.kwargs.get("size")
        return _whole(list(obj.args) if size is None else [size]) if not obj.open_args else None
    if name in ("full", "normal") and obj.argument(0, "size") is not None:
        held = settle(obj.argument(0, "size") or Known(None))
        return _whole(held.items) if isinstance(held, Seq) else None
    if name == "randint":
        held_at = next((v for v in map(settle, (*obj.args, *obj.kwargs.values())) if isinstance(v, Seq)), None)
        return _whole(held_at.items) if held_at is not None else None
    if name == "eye":
        given = (obj.argument(0, "n"), obj.argument(1, "m"))
        sides = _whole([side for side in given if side is not None])
        return (sides[0], sides[-1]) if sides else None
    if name == "arange":
        bounds = [plain(arg) for arg in obj.args[:3]]
        whole = all(isinstance(bound, (int, float)) for bound in bounds) and bounds
        if not whole or (len(bounds) == 3 and bounds[2] == 0):
            return None
        first, last, step = (0, bounds[0], 1) if len(bounds) == 1 else (bounds[0], bounds[1], (*bounds, 1)[2])
        return (max(0, math.ceil((last - first) / step)),)
    if name == "linspace":
        count = plain(obj.argument(2, "steps"))
        return (count,) if isinstance(count, int) else None
    if name == "tensor" and obj.args:
        return _written(plain(obj.args[0], _UNCLEAR))
    return None


def _spread(obj: Obj, depth: int) -> tuple[int, ...] | None:
    """Operands spread to each other; one that is not known is taken for a number."""
    found = [shape for arg in obj.args if (shape := shape_of(arg, depth + 1)) is not None]
    return broadcast(*found) if found else None


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape that shapes are spread to together, or None where they do not fit."""
    out: list[int] = []
    for place in range(max(len(shape) for shape in shapes)):
        sizes = {shape[-1 - place] for shape in shapes if place < len(shape)} - {1}
        if len(sizes) > 1:
            return None
        out.append(sizes.pop() if sizes else 1)
    return tuple(reversed(out))


def repeated(before: tuple[int, ...], times: Sequence[int]) -> tuple[int, ...] | None:
    """Return the shape of a tensor that is put so many times beside itself; None where there are too few numbers."""
    if len(times) < len(before):
        return None
    behind = (1,) * (len(times) - len(before)) + before
    return tuple(size * count for size, count in zip(behind, times, strict=True))


def filled(sizes: Sequence[int], elements: int) -> tuple[int, ...] | None:
    """Return sizes of which one may be -1, for a number of elements; None where they do not fit."""
    if sizes.count(-1) > 1:
        return None
    known = math.prod(size for size in sizes if size != -1)
    if -1 not in sizes:
        return tuple(sizes) if known == elements else None
    return (
        tuple(elements // known if size == -1 else size for size in sizes) if known and elements % known == 0 else None
    )


def _written(data: object) -> tuple[int, ...] | None:
    if isinstance(data, (int, float)):
        return ()
    if isinstance(data, (list, tuple)) and data:
        inner = _written(data[0])
        return (len(data), *inner) if inner is not None else None
    return None


def _whole(values: list[Value]) -> tuple[int, ...] | None:
    """Return whole numbers that are given one by one or as one sequence; None where one is not known."""
    if len(values) == 1 and isinstance(held := settle(values[0]), Seq):
        values = held.items
    found = [plain(value) for value in values]
    return tuple(found) if found and all(isinstance(size, int) for size in found) else None


def numel_of(value: Value | None) -> int | None:
    """Return the number of elements of a tensor, or None where it is not known."""
    shape = shape_of(value)
    return math.prod(shape) if shape is not None else None
