"""Ranks: which values differ between the processes of a run, and which branches only some of them take."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from preflight.source.trace import Context, Event, parents_of, provenance
from preflight.source.values import Choice, Known, Obj, Unknown, Value, options_of, plain, settle

if TYPE_CHECKING:
    from preflight.source.trace import Trace

Kind = Literal["global", "local"]

_CALLS: dict[str, Kind] = {
    "torch.distributed.get_rank": "global",
    "deepspeed.comm.get_rank": "global",
    "horovod.torch.rank": "global",
    "torch_xla.core.xla_model.get_ordinal": "global",
    "torch_xla.core.xla_model.is_master_ordinal": "global",
    ".is_world_process_zero": "global",
    "torch.distributed.get_node_local_rank": "local",
    "horovod.torch.local_rank": "local",
    "torch_xla.core.xla_model.get_local_ordinal": "local",
    ".is_local_process_zero": "local",
    # The index that mp.spawn gives is the rank on one node, and is rarely anything else.
    "torch.multiprocessing.spawn": "global",
}
_VARIABLES: dict[str, Kind] = {
    "RANK": "global",
    "SLURM_PROCID": "global",
    "OMPI_COMM_WORLD_RANK": "global",
    "PMI_RANK": "global",
    "LOCAL_RANK": "local",
    "SLURM_LOCALID": "local",
    "OMPI_COMM_WORLD_LOCAL_RANK": "local",
    "MPI_LOCALRANKID": "local",
}
_ATTRIBUTES: dict[str, Kind] = {
    "is_main_process": "global",
    "process_index": "global",
    "is_last_process": "global",
    "is_global_zero": "global",
    "global_rank": "global",
    "is_local_main_process": "local",
    "local_process_index": "local",
    "local_rank": "local",
}
_HOLDERS = ("accelerator", "fabric", "engine", "lightning_trainer", "lightning_module", "training_arguments", "trainer")
_CONVERSIONS = ("builtins.int", "builtins.bool", "builtins.str", "builtins.float")


def rank_sources(value: Value | None, limit: int = 60) -> Iterator[tuple[Kind, Value]]:
    """Where the rank comes into a plain value: through arithmetic, comparisons and conversions, never through tensors."""
    queue: list[Value] = [value] if value is not None else []
    seen: set[int] = set()
    while queue and len(seen) < limit:
        current = queue.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        kind = _source(current)
        if kind is not None:
            yield kind, current
            continue
        if isinstance(current, Obj):
            if current.kind == "op" or current.name in _CONVERSIONS:
                queue.extend(parents_of(current))
        elif isinstance(current, (Known, Unknown)):
            queue.extend(parents_of(current))
        elif isinstance(current, Choice):
            queue.extend(current.options)
            if current.test is not None:
                queue.append(current.test)
        else:
            queue.extend(options_of(current, limit=4))


def _source(value: Value) -> Kind | None:
    if not isinstance(value, Obj):
        return None
    if value.kind == "item" and value.name == "os.environ" and value.args:
        name = settle(value.args[0])
        return _VARIABLES.get(name.value) if isinstance(name, Known) else None
    if value.kind == "item" and value.name == "argparse.option" and value.args:
        # torch.distributed.launch gives every process its own --local_rank.
        name = settle(value.args[0])
        return "local" if isinstance(name, Known) and name.value in ("local_rank", "local-rank") else None
    if value.kind == "call" and value.name == ".get_rank" and not value.args and not value.kwargs:
        return "global"  # of a mesh of devices
    if value.kind in ("call", "item") and value.name in _CALLS:
        if value.name == "torch.distributed.get_rank" and (value.args or "group" in value.kwargs):
            return None  # the rank within another group, which may be made after the file that names it was read
        return _CALLS[value.name]
    if value.kind == "attr" and value.name in _ATTRIBUTES and _holds_rank(value.receiver):
        return _ATTRIBUTES[value.name]
    return None


def _holds_rank(value: Value | None) -> bool:
    from preflight.source.roles import role_of_name

    for option in options_of(value, limit=4):
        if isinstance(option, Obj):
            names = option.cls.external_bases() if option.cls is not None else [option.name]
            if any(role_of_name(n) in _HOLDERS for n in names) or option.name in (
                "accelerate.PartialState",
                "accelerate.state.PartialState",
            ):
                return True
    return False


def rank_kind(value: Value | None) -> Kind | None:
    """Which rank a value depends on: global wins, for it says more; None when it depends on none."""
    found: Kind | None = None
    for kind, _ in rank_sources(value):
        if kind == "global":
            return "global"
        found = kind
    return found


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "is": operator.eq,
    "isnot": operator.ne,
    "in": lambda a, b: a in b,
    "notin": lambda a, b: a not in b,
}
_NODES: dict[type, str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "is",
    ast.IsNot: "isnot",
    ast.In: "in",
    ast.NotIn: "notin",
    ast.And: "and",
    ast.Or: "or",
    ast.Not: "not",
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}
_FIRST_ONLY = (
    "is_main_process",
    "is_local_main_process",
    "is_global_zero",
    ".is_world_process_zero",
    ".is_local_process_zero",
)


def on_rank(value: Value | None, rank: int, depth: int = 0) -> Any:
    """What a plain value is on a rank; None where that cannot be told. Parts that are not known do not decide."""
    base = value
    if base is None or depth > 30:
        return None
    if isinstance(base, Choice):
        if base.test is not None and len(base.options) == 2 and rank_kind(base.test) is not None:
            answer = on_rank(base.test, rank, depth + 1)
            return None if answer is None else on_rank(base.options[0 if answer else 1], rank, depth + 1)
        options = [o for o in base.options if rank_kind(o) is not None]
        return on_rank(options[0], rank, depth + 1) if options else None
    base = settle(base)
    if _source(base) is not None:
        name = getattr(base, "name", "")
        return rank == 0 if name in _FIRST_ONLY or name.endswith("is_master_ordinal") else rank
    if rank_kind(base) is None:
        return plain(base, base if isinstance(base, Obj) and base.kind in ("call", "instance") else None)
    if isinstance(base, Obj) and base.name in _CONVERSIONS and base.args:
        return on_rank(base.args[0], rank, depth + 1)
    return _operation(base, rank, depth)


def _operation(base: Value, rank: int, depth: int) -> Any:
    parents = list(parents_of(base))
    symbol = base.name if isinstance(base, Obj) else _symbol(base)
    if symbol is None:  # a conversion, or an option with its default
        source = next((p for p in parents if rank_kind(p) is not None), None)
        return on_rank(source, rank, depth + 1)
    worth = [on_rank(p, rank, depth + 1) for p in parents]
    if symbol == "not":
        return None if worth[0] is None else not worth[0]
    if symbol in ("and", "or"):
        known = [bool(w) for p, w in zip(parents, worth, strict=True) if w is not None and rank_kind(p) is not None]
        if not known:
            return None
        return all(known) if symbol == "and" else any(known)
    if symbol in ("is", "isnot") and len(worth) == 2 and rank_kind(parents[1]) is None:
        return (worth[0] is worth[1] or worth[0] == worth[1]) is (symbol == "is")
    if len(worth) != 2 or worth[0] is None or worth[1] is None or symbol not in _COMPARE:
        return None
    try:
        return _COMPARE[symbol](worth[0], worth[1])
    except (TypeError, ArithmeticError):
        return None


def _symbol(value: Value) -> str | None:
    node = value.site.node if value.site is not None else None
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _NODES.get(type(node.ops[0]))
    if isinstance(node, (ast.BoolOp, ast.UnaryOp, ast.BinOp)):
        return _NODES.get(type(node.op))
    return None


def divides(frame: Context) -> bool | None:
    """Whether a branch on the rank is taken by some ranks and not by others; None where that cannot be told.

    ``local_rank != -1`` asks whether the run is distributed at all: every rank answers alike.
    """
    answers = [on_rank(frame.value, rank) for rank in (0, 1, 2, 5)] if frame.value is not None else []
    if not answers or any(a is None for a in answers):
        return None
    return len({bool(a) for a in answers}) > 1


def rank_frames(context: Context) -> Iterator[tuple[Kind, Context]]:
    """The branches around a place that only some ranks take, innermost first."""
    for frame in context.frames():
        if frame.kind == "if":
            kind = rank_kind(frame.value)
            if kind is not None and divides(frame) is not False:
                yield kind, frame


_RANK_ZERO = ("rank_zero_only", "on_main_process", "on_local_main_process", "master_only", "main_process_only")


def rank_guard(event: Event) -> Kind | None:
    """Whether only some ranks get to an event: by a branch on the rank, or a decorator of a library that says so."""
    found: Kind | None = None
    for kind, _ in rank_frames(event.context):
        if kind == "global":
            return "global"
        found = kind
    for frame in event.context.frames():
        if frame.kind != "call" or frame.value is None:
            continue
        for decorator in getattr(frame.value, "decorators", ()):
            name = getattr(decorator, "name", "")
            if name.rpartition(".")[2] in _RANK_ZERO:
                return "local" if "local" in name else "global"
    return found


_PLAIN = ("torch.", "builtins.", "math.", "os.", "numpy.", "time.", "random.", ".item", ".get", ".keys")


def may_ask_rank(frame: Context) -> bool:
    """Whether a branch could be one on the rank, asked by code that was not followed."""

    def counts(value: Value) -> bool:
        return _counts(value, frame)

    for index, part in enumerate(provenance(frame.value, 40, counts)):
        if counts(part):
            continue
        if isinstance(part, Obj) and index < 12:
            if part.kind == "call" and not part.name.startswith(_PLAIN) and part.name != "()":
                return True
            if part.kind == "attr" and not (isinstance(part.receiver, Obj) and part.receiver.name.startswith("torch.")):
                return True
        if (
            isinstance(part, Unknown)
            and not part.parents
            and not part.reason.startswith(("whether a file", "the number of", "the length"))
        ):
            return True
    return False


def _counts(value: Value, frame: Context) -> bool:
    """Whether a value is a number that a loop counts up: the place of a batch in a loop around, or a sum of steps.

    What a loop has left behind is none: ``for i, host in enumerate(hosts): if host == mine: rank = i``.
    """
    if not isinstance(value, Unknown) or not value.reason.startswith("changes "):
        return False
    first = plain(value.initial)
    if not isinstance(first, (int, float)) or isinstance(first, bool):
        return False
    return not value.parents or any(
        part is value.parents[0] for loop in frame.loops() for part in provenance(loop.value, 20)
    )


def carries_rank(value: Value | None) -> bool:
    """Whether the rank is anywhere in what a value was made of, such as a file name."""
    return any(_source(part) is not None for part in provenance(value, 300))


_GROUPS = (
    "torch.distributed.init_process_group",
    "deepspeed.init_distributed",
    "torch.distributed.device_mesh.init_device_mesh",
    "horovod.torch.init",
    "colossalai.launch_from_torch",
    "deepspeed.initialize",
)


def makes_group(trace: Trace) -> list[Event]:
    """The calls that start a process group."""
    return trace.calls(*_GROUPS)


__all__ = [
    "Kind",
    "carries_rank",
    "divides",
    "makes_group",
    "on_rank",
    "rank_frames",
    "rank_guard",
    "rank_kind",
    "rank_sources",
]
