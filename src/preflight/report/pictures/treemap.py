"""The peak of the memory as areas: the parts, and who holds them where a dry run saw it."""

from __future__ import annotations

import textwrap
from typing import Any

import msgspec

from preflight.report.parts.clean import clean
from preflight.report.parts.sentences import part_name
from preflight.report.pictures.axis import LETTER, NARROW, WIDE, room
from preflight.vocabulary.memory import PART_OF, MemoryEstimate
from preflight.vocabulary.profile import Profile
from preflight.vocabulary.quantity import format_bytes

SHAPES = {"wide": (WIDE, 260.0), "narrow": (NARROW, 360.0)}
"""The two drawings, for a screen and for a telephone: pixels that each has at least."""
_LINE = 15.0


class Area(msgspec.Struct, frozen=True):
    """A rectangle, in percent of the drawing, with what it stands for."""

    part: str
    label: str
    bytes: float
    x: float
    y: float
    width: float
    height: float


def treemap(memory: MemoryEstimate, profile: Profile | None = None) -> dict[str, Any] | None:
    """Return the picture for both widths; None where the parts are not known."""
    if memory.breakdown is None or memory.breakdown.total <= 0:
        return None
    total = memory.breakdown.total
    return {
        "total": format_bytes(total),
        "held": bool(_holders(memory, profile)),
        "shapes": [
            {
                "name": name,
                "height": round(shape[1]),
                "areas": [_drawn(area, total, shape) for area in areas_of(memory, profile, shape)],
            }
            for name, shape in SHAPES.items()
        ],
    }


def areas_of(memory: MemoryEstimate, profile: Profile | None, shape: tuple[float, float]) -> list[Area]:
    """Return rectangles whose areas are the bytes of the parts; they cover the drawing and do not overlap."""
    parts = memory.breakdown
    if parts is None:
        return []
    sizes = {name: getattr(parts, name) for name in parts.__struct_fields__}
    known = sorted(((name, size) for name, size in sizes.items() if size > 0), key=lambda item: (-item[1], item[0]))
    held = _holders(memory, profile)
    found = []
    for (part, size), box in zip(known, squarified([size for _, size in known], (0.0, 0.0, *shape)), strict=True):
        inner = _inner(part, size, held.get(part, []))
        for (label, within), (x, y, width, height) in zip(
            inner, squarified([within for _, within in inner], box), strict=True
        ):
            place = (100 * x / shape[0], 100 * y / shape[1], 100 * width / shape[0], 100 * height / shape[1])
            found.append(Area(part, label, within, *place))
    return found


def _holders(memory: MemoryEstimate, profile: Profile | None) -> dict[str, list[tuple[str, float]]]:
    """Return who holds the bytes of each part, as a dry run saw them."""
    found: dict[str, list[tuple[str, float]]] = {}
    if profile is None or memory.method != "dry-run":
        return found
    for one in profile.holders:
        module, line = clean(one.module), clean(one.line)
        where = f"{module} ({line})" if module and line else module or line
        found.setdefault(PART_OF.get(one.category, ""), []).append((where or one.category, float(one.bytes)))
    return found


def _inner(part: str, size: float, held: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Return what a part consists of: who holds it, and the rest; the part alone where holders hold more than it."""
    rest = size - sum(within for _, within in held)
    if not held or rest < -0.001 * size:
        return [(part_name(part), size)]
    inner = [(f"{part_name(part)}: {label}", within) for label, within in held if within > 0]
    return sorted([*inner, *([(f"{part_name(part)}, others", rest)] if rest > 0 else [])], key=lambda one: -one[1])


def squarified(sizes: list[float], box: tuple[float, float, float, float]) -> list[tuple[float, float, float, float]]:
    """Cut a box into rectangles of the given shares, the largest first, each as near to a square as can be had in a row.

    Bruls, Huizing and van Wijk, "Squarified treemaps", 2000: a row along the shorter side takes rectangles as long as the
    worst of them does not become longer than it was.
    """
    x, y, width, height = box
    total = sum(sizes)
    if not sizes or total <= 0:
        return []
    scale = width * height / total
    areas = [size * scale for size in sizes]
    found: list[tuple[float, float, float, float]] = []
    first = 0
    while first < len(areas):
        side = min(width, height)
        last = first + 1
        while last < len(areas) and _worst(areas[first : last + 1], side) <= _worst(areas[first:last], side):
            last += 1
        row = areas[first:last]
        thick = sum(row) / side if side > 0 else 0.0
        at = 0.0
        for area in row:
            long = area / thick if thick > 0 else 0.0
            found.append((x, y + at, thick, long) if width >= height else (x + at, y, long, thick))
            at += long
        if width >= height:
            x, width = x + thick, width - thick
        else:
            y, height = y + thick, height - thick
        first = last
    return found


def _worst(row: list[float], side: float) -> float:
    """Return the longest shape of a row: its longer side over its shorter one."""
    total = sum(row)
    if side <= 0 or total <= 0 or min(row) <= 0:
        return float("inf")
    return max(side * side * max(row) / total**2, total**2 / (side * side * min(row)))


def _drawn(area: Area, total: float, shape: tuple[float, float]) -> dict[str, Any]:
    """Return a rectangle with as many lines of its label as it has room for."""
    pixels = (shape[0], shape[0])
    name, size = area.label, format_bytes(area.bytes)
    lines = int((area.height / 100 * shape[1] - 4) // _LINE)
    short = name.partition(": ")[2].partition(" (")[0] or name.partition(": ")[2] or name
    letters = max(int((area.width / 100 * shape[0] - 6) / LETTER), 1)
    folded = textwrap.wrap(short, letters, break_long_words=False)
    ways = ([name, size], [name], [short, size], [short], [*folded, size], folded, [size])
    fitting = (
        way for way in ways if len(way) <= lines and all(room(one, area.width, pixels) is not None for one in way)
    )
    told = next(fitting, [])
    return {
        "part": area.part,
        "x": round(area.x, 3),
        "y": round(area.y, 3),
        "width": round(area.width, 3),
        "height": round(area.height, 3),
        "lines": told,
        "title": f"{name}: {size}, {100 * area.bytes / total:.1f} %",
    }
