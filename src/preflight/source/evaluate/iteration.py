"""Iteration: what a loop over a value goes through."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from preflight.source.values import Choice, Dict, Known, Obj, Phi, Seq, Unknown, Value, join, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine
    from preflight.source.trace import Context

MAX_RANGE = 4096

# Callables that hand on what they iterate over, one item at a time.
PASS_THROUGH = frozenset(
    "builtins.iter builtins.reversed builtins.sorted builtins.list builtins.tuple itertools.islice itertools.cycle "
    "tqdm.tqdm tqdm.auto.tqdm tqdm.autonotebook.tqdm tqdm.notebook.tqdm tqdm.rich.tqdm rich.progress.track "
    "tqdm.trange accelerate.skip_first_batches alive_progress.alive_it fastprogress.progress_bar "
    "fastprogress.fastprogress.progress_bar fastprogress.master_bar progressbar.progressbar "
    "torch_xla.distributed.parallel_loader.MpDeviceLoader".split()
)


def iterate(m: Machine, value: Value, node: ast.AST, depth: int = 0) -> tuple[list[Value] | None, Value | None]:
    """Return the items, when all are known, or else one element that stands for each.

    Both may be given: items that are known, and an element when there may be more.
    """
    base = settle(value)
    if isinstance(base, Choice):
        base = next((o for o in base.options if isinstance(o, (Seq, Obj, Dict))), base)
    if isinstance(base, Seq):
        if not base.open:
            return base.items, None
        return None, _joined(base.items) or m.unknown("item of a list that is not fully known", node, value)
    if isinstance(base, Dict):
        if not base.open and not base.name:
            return [m.known(key, node) for key in base.entries], None
        return None, m.unknown("key of a dictionary that is not fully known", node, value)
    if isinstance(base, Known) and isinstance(base.value, (str, bytes)) and len(base.value) <= MAX_RANGE:
        return [m.known(c, node) for c in base.value], None
    if isinstance(base, Obj) and depth < 12:
        found = _object(m, base, value, node, depth)
        if found is not None:
            return found
    if isinstance(base, Unknown):
        return None, m.made("item", "", node, receiver=value)
    return None, m.made("item", "", node, receiver=value)


def _joined(items: list[Value]) -> Value | None:
    result: Value | None = None
    for item in items[:6]:
        result = item if result is None else join(result, item)
    return result


def _object(
    m: Machine, base: Obj, value: Value, node: ast.AST, depth: int
) -> tuple[list[Value] | None, Value | None] | None:
    name = base.name
    if name == "builtins.range":
        span = base.data
        if isinstance(span, range):
            if len(span) <= MAX_RANGE:
                return [Known(i, base.site, "loop variable") for i in span], None
            return None, Unknown("changes with each iteration of the loop", m.site(node), (value,), Known(span.start))
        # Where it begins is often known though its end is not: range(1, config.epochs + 1).
        begin = settle(base.args[0]) if len(base.args) > 1 else Known(0)
        first = begin if isinstance(begin, Known) and isinstance(begin.value, int) else None
        return None, Unknown("changes with each iteration of the loop", m.site(node), (value,), first)
    if name == "builtins.enumerate" and base.args:
        items, element = iterate(m, base.args[0], node, depth + 1)
        if items is not None:
            given = settle(base.argument(1, "start") or Known(0))
            start = given.value if isinstance(given, Known) and isinstance(given.value, int) else 0
            return [Seq([Known(i + start), item], "tuple") for i, item in enumerate(items)], None
        begin = settle(base.argument(1, "start") or Known(0))
        first_index = Known(begin.value) if isinstance(begin, Known) else None
        index = Unknown("changes with each iteration of the loop", m.site(node), (value,), first_index, "index")
        return None, Seq([index, element or m.unknown("item", node)], "tuple")
    if name == "builtins.zip" and base.args:
        return _zip(m, base, node, depth)
    if name in PASS_THROUGH and (base.args or base.kwargs):
        inner = base.args[0] if base.args else next(iter(base.kwargs.values()))
        if name == "tqdm.trange":
            return None, Unknown("changes with each iteration of the loop", m.site(node), (value,))
        items, element = iterate(m, inner, node, depth + 1)
        if base.kind == "copy":  # copy.deepcopy(list(model.parameters())) holds other tensors than the list
            done: dict[int, Value] = {}
            items = None if items is None else [duplicate(m, item, node, 0, done) for item in items]
            element = None if element is None else duplicate(m, element, node, 0, done)
        return (None, _joined(items)) if name == "itertools.cycle" and items else (items, element)
    if base.kind == "generator" and isinstance(base.data, list):
        if base.data and all(_certain(frame, base.context) for _, frame in base.data):
            return [v for v, _ in base.data], None
        return None, _joined([v for v, _ in base.data]) or m.unknown("a generator that yields nothing", node, value)
    if name in ("torch.nn.ModuleList", "torch.nn.Sequential") and (base.cls is None or "<items>" in base.attrs):
        from preflight.source.evaluate.library.torch import module_items

        parts = module_items(m, base)
        if parts is not None:
            return parts, None
    if base.cls is not None:
        return _instance(m, base, node, depth)
    return None


def _certain(place: Context, top: Context | None) -> bool:
    """Whether a place in a generator is reached exactly once: no undecided branch and no open loop lies around it."""
    for frame in place.frames():
        if frame is top:
            return True
        if frame.kind in ("if", "except") or (frame.kind == "loop" and not frame.unrolled):
            return False
    return False


def items_of_record(value: Value) -> list[Value] | None:
    """The fields of a named tuple, in order; None for anything else."""
    if isinstance(value, Obj) and value.cls is not None and "typing.NamedTuple" in value.cls.external_bases():
        from preflight.source.evaluate.classes import fields

        found = [value.attrs.get(name) for name, _, _ in fields(value.cls)]
        return [v for v in found if v is not None] if None not in found else None
    return None


def _zip(m: Machine, base: Obj, node: ast.AST, depth: int) -> tuple[list[Value] | None, Value | None]:
    parts = [iterate(m, arg, node, depth + 1) for arg in base.args]
    if all(items is not None for items, _ in parts):
        columns = [items for items, _ in parts if items is not None]
        return [Seq(list(row), "tuple") for row in zip(*columns, strict=False)], None
    row = [element if items is None else (items[0] if items else m.unknown("item", node)) for items, element in parts]
    return None, Seq([v if v is not None else m.unknown("item", node) for v in row], "tuple")


def _instance(m: Machine, base: Obj, node: ast.AST, depth: int) -> tuple[list[Value] | None, Value | None] | None:
    from preflight.source.evaluate.calls import call_method

    cls = base.cls
    assert cls is not None
    record = items_of_record(base)
    if record is not None:
        return record, None
    if cls.lookup("__iter__") is not None:
        result = settle(call_method(m, base, "__iter__", [], {}, node))
        if result is not base:
            return iterate(m, result, node, depth + 1)
        if cls.lookup("__next__") is not None:
            return None, call_method(m, base, "__next__", [], {}, node)
    if cls.lookup("__getitem__") is not None and not _is_dataset(base):
        return None, call_method(m, base, "__getitem__", [m.unknown("an index", node)], {}, node)
    return None


def _is_dataset(base: Obj) -> bool:
    return base.cls is not None and any(n.startswith("torch.utils.data.") for n in base.cls.external_bases())


def copy_of(m: Machine, value: Value, node: ast.AST) -> Value:
    """A second thing that is made like another: what ``copy.deepcopy`` or one more pass of a comprehension gives."""
    original = settle(value)
    if not isinstance(original, Obj):
        return value
    while original.kind == "copy" and isinstance(original.receiver, Obj):
        original = original.receiver
    result = m.made("copy", original.name, node, original.args, original.kwargs, original, original.cls)
    result.attrs = dict(original.attrs)
    result.data = original.data
    return result


def duplicate(m: Machine, value: Value, node: ast.AST, since: int = 0, done: dict[int, Value] | None = None) -> Value:
    """A value made a second time, with all that it holds: of containers too, so that changing one leaves the other.

    Things older than ``since`` are held by both.
    """
    from preflight.source.evaluate.library.methods import is_module

    done = {} if done is None else done
    base = settle(value)
    if id(base) in done:
        return done[id(base)]
    m.tick()
    if isinstance(base, Seq):
        copied = done[id(base)] = Seq([], base.kind, m.site(node), base.open)
        copied.items.extend(duplicate(m, item, node, since, done) for item in base.items)
        return copied
    if isinstance(base, Dict):
        table = done[id(base)] = Dict({}, m.site(node), base.open, base.name)
        table.entries.update({k: duplicate(m, v, node, since, done) for k, v in base.entries.items()})
        return table
    if isinstance(base, Obj) and base.number > since:
        result = done[id(base)] = copy_of(m, base, node)
        if isinstance(result, Obj) and not is_module(base):
            result.attrs = {k: duplicate(m, v, node, since, done) for k, v in base.attrs.items()}
        return result
    return value


__all__ = ["PASS_THROUGH", "Phi", "copy_of", "duplicate", "iterate"]
