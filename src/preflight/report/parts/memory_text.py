"""The memory section of the terminal report."""

from __future__ import annotations

from preflight.report.parts.clean import one_line
from preflight.report.parts.paint import Canvas
from preflight.report.parts.sentences import (
    capacity,
    interval,
    oom_line,
    part_name,
)
from preflight.vocabulary.memory import TOTALS, MemoryBreakdown, MemoryEstimate, TimelinePoint
from preflight.vocabulary.quantity import format_bytes

METHODS = {"static": "read from the script", "dry-run": "seen in a dry run", "formula": "by formula"}
_FITS_STYLES = {"yes": "green", "no": "red", "unknown": "yellow"}
_TIMELINE_ROWS = 12


def memory_section(canvas: Canvas, memory: MemoryEstimate, *, verbose: bool) -> None:
    """Add the memory of one GPU: totals against the capacity, where it runs out, the parts, the timeline."""
    canvas.heading("MEMORY", "of one GPU" + (f", {METHODS[memory.method]}" if memory.peak_bytes is not None else ""))
    _totals(canvas, memory)
    if memory.oom is not None:
        canvas.write(oom_line(memory.oom), indent=2, style="red")
        if memory.oom.arithmetic:
            canvas.write(one_line(memory.oom.arithmetic), indent=4)
    if memory.breakdown is not None and memory.breakdown.total > 0:
        _breakdown(canvas, memory.breakdown)
    if memory.timeline and (verbose or memory.capacity_bytes is not None):
        _timeline(canvas, memory, verbose=verbose)
    if memory.how and verbose:
        canvas.write("how it came about:", indent=2)
        for line in memory.how:
            canvas.write(one_line(line), indent=4)


def _totals(canvas: Canvas, memory: MemoryEstimate) -> None:
    if memory.peak_bytes is None:
        canvas.write(f"not known: {one_line(memory.reason or 'no reason was given')}", indent=2)
    elif memory.assumed:
        canvas.write(f"of {one_line(memory.assumed)}:", indent=2)
    for field, name in TOTALS.items():
        value = getattr(memory, field)
        if value is None:
            continue
        ends = interval(value)
        line = f"{name:<25}{format_bytes(value.mid):>10}" + (f"   ({ends})" if ends else "")
        canvas.write(line, indent=2, hang=4)
    if memory.capacity_bytes is None:
        canvas.write(f"capacity not known: {capacity(memory)}", indent=2, hang=4)
        return
    line = f"{'capacity of the GPU':<25}{format_bytes(memory.capacity_bytes):>10}   "
    canvas.write(capacity(memory), indent=2, first=line, hang=4, style=_FITS_STYLES[memory.fits])
    if memory.peak_bytes is not None and memory.reason:
        canvas.write(one_line(memory.reason), indent=4)


def _breakdown(canvas: Canvas, parts: MemoryBreakdown) -> None:
    sizes = {field: getattr(parts, field) for field in parts.__struct_fields__}
    shown = sorted((item for item in sizes.items() if item[1] > 0), key=lambda item: (-item[1], item[0]))
    canvas.write("breakdown at the peak", indent=2)
    room = min(canvas.width - 48, 40)
    for field, size in shown:
        share = size / parts.total
        line = f"{part_name(field):<23}{format_bytes(size):>10}  {share * 100:>3.0f} %  {canvas.bar(share, room)}"
        canvas.lines.append(f"    {line}".rstrip())
    canvas.lines.append(f"    {'total':<23}{format_bytes(parts.total):>10}")


def _timeline(canvas: Canvas, memory: MemoryEstimate, *, verbose: bool) -> None:
    points = memory.timeline if verbose else shortened(memory.timeline, _TIMELINE_ROWS)
    left_out = len(memory.timeline) - len(points)
    note = f" ({left_out} more not shown)" if left_out else ""
    canvas.write(f"timeline of allocated memory{note}", indent=2)
    top = max(max(point.allocated_bytes for point in points), memory.capacity_bytes or 0, 1)
    room = min(canvas.width - 57, 40)
    for point in points:
        over = memory.capacity_bytes is not None and point.allocated_bytes > memory.capacity_bytes
        name = f"step {point.step} {point.phase}"
        bar = canvas.bar(point.allocated_bytes / top, room) if room >= 8 else ""
        line = f"{name:<23}{format_bytes(point.allocated_bytes):>10}  {bar}"
        canvas.lines.append(f"    {line}{'  above capacity' if over else ''}".rstrip())


def shortened(points: tuple[TimelinePoint, ...], rows: int) -> tuple[TimelinePoint, ...]:
    """Return at most ``rows`` points in order: the first half of the room from the start, the rest the largest ones."""
    if len(points) <= rows:
        return points
    first = set(range(rows // 2))
    rest = sorted(range(rows // 2, len(points)), key=lambda index: (-points[index].allocated_bytes, index))
    keep = first | set(rest[: rows - len(first)])
    return tuple(points[index] for index in sorted(keep))
