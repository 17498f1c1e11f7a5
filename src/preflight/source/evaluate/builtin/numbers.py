"""Built-in functions of numbers, text and lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from preflight.source.evaluate.builtin.model import MISSING, MODEL
from preflight.source.evaluate.iteration import items_of_record
from preflight.source.evaluate.library import Call
from preflight.source.evaluate.operators import is_soft
from preflight.source.values import (
    Dict,
    Func,
    Known,
    Obj,
    Seq,
    Unknown,
    Value,
    plain,
    settle,
)

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine


_NAMED = {"max": {"default"}, "min": {"default"}, "sum": {"start"}, "int": {"base"}, "round": {"ndigits"}}


_PURE: dict[str, Any] = {
    name: getattr(__import__("builtins"), name)
    for name in "int float str bool complex abs round min max sum len divmod ord chr hex bin oct pow any all repr bytes".split()
}


@MODEL.call(*("builtins." + name for name in _PURE))
def _pure(m: Machine, c: Call) -> Value | None:
    name = c.name.rpartition(".")[2]
    if name == "len" and c.args:
        return _len(m, c)
    values = [m.plain(a, MISSING) for a in c.args]
    named = {k: m.plain(v, MISSING) for k, v in c.kwargs.items()}
    if any(v is MISSING for v in (*values, *named.values())) or c.open or not set(named) <= _NAMED.get(name, set()):
        path = settle(c.args[0]) if name == "str" and len(c.args) == 1 else None
        if isinstance(path, Obj) and path.name == "pathlib.Path" and isinstance(path.data, str):
            return m.known(path.data, c.node)
        return _unknown_number(m, c, name) if name not in ("any", "all") else None
    if name == "pow" and (len(values) != 2 or abs(_bits(values[0]) * _bits(values[1], True)) > 4096):
        return m.unknown("too large to compute here", c.node)
    try:
        result = _PURE[name](*values, **named)
    except Exception as error:
        return m.unknown(f"cannot be computed: {error}", c.node, *c.args)
    if name == "bytes" and len(result) > 10_000:
        return m.unknown("too large to compute here", c.node)
    first = settle(c.args[0]) if c.args else None
    how = first.how if isinstance(first, Known) else "computed"
    soft = any(is_soft(a) for a in c.args)
    return m.lift(result, c.node, how, soft, tuple(c.args))


def is_soft_range(value: Obj) -> bool:
    """Whether an option decides how far a range goes."""
    return any(map(is_soft, value.args))


def _bits(value: Any, exponent: bool = False) -> int:
    if isinstance(value, int):
        return abs(value) if exponent else value.bit_length()
    return 1


def _unknown_number(m: Machine, c: Call, name: str) -> Value | None:
    """A conversion of something that is not known: a number that is not known, unless it reads a tensor."""
    settled = [settle(a) for a in c.args]
    if any(isinstance(a, Obj) for a in settled):
        return None
    unknown = next((a for a in settled if isinstance(a, Unknown)), None)
    if unknown is not None:
        return Unknown(unknown.reason, m.site(c.node), tuple(c.args), name=unknown.name)
    return None


def _len(m: Machine, c: Call) -> Value | None:
    value = settle(c.args[0])
    if isinstance(value, Seq) and not value.open:
        # The words of a command line that was not given may be more when the script runs.
        return m.known(len(value.items), c.node, "computed", value.kind == "argv")
    if isinstance(value, Dict) and not value.open:
        return m.known(len(value.entries), c.node, "computed")
    if isinstance(value, Known) and isinstance(value.value, (str, bytes)):
        return m.known(len(value.value), c.node, "computed")
    if isinstance(value, Obj) and isinstance(value.data, range):
        span = value.data  # len() of a range fails beyond a machine word
        count = (span.stop - span.start + span.step - (1 if span.step > 0 else -1)) // span.step
        return m.known(max(0, count), c.node, "computed", is_soft_range(value))
    record = items_of_record(value)
    if record is not None:
        return m.known(len(record), c.node, "computed")
    if isinstance(value, Obj) and value.cls is not None and isinstance(value.cls.lookup("__len__"), Func):
        from preflight.source.evaluate.calls import call_method

        return call_method(m, value, "__len__", [], {}, c.node)
    return Unknown("the length is not known before the data is read", m.site(c.node), tuple(c.args), name="len")


@MODEL.call("builtins.range")
def _range(m: Machine, c: Call) -> Value | None:
    made = m.made("call", "builtins.range", c.node, c.args, c.kwargs)
    values = [plain(a) for a in c.args]
    if values and all(isinstance(v, int) for v in values) and len(values) <= 3 and (len(values) < 3 or values[2]):
        made.data = range(*values)
    return made
