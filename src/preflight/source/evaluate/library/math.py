"""Plain mathematics, within bounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from preflight.source.evaluate.library import Call, Model
from preflight.source.values import Unknown, Value, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()
_SAFE = (
    "sqrt log log2 log10 exp ceil floor cos sin tan tanh pow fabs isnan isinf isfinite gcd prod trunc copysign degrees "
    "radians hypot atan atan2 erf expm1 log1p fmod isqrt"
).split()
_MISSING: Any = object()


@MODEL.call(*("math." + name for name in _SAFE))
def _math(m: Machine, c: Call) -> Value | None:
    values = [m.plain(a, _MISSING) for a in c.args]
    name = c.name.partition(".")[2]
    if any(v is _MISSING for v in values):
        unknown = next((a for a in map(settle, c.args) if isinstance(a, Unknown)), None)
        return m.unknown(unknown.reason, c.node, *c.args) if unknown is not None else None
    try:
        result = getattr(math, name)(*values)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError) as error:
        return m.unknown(f"cannot be computed: {error}", c.node, *c.args)
    soft = any(getattr(settle(a), "soft", False) for a in c.args)
    how = next((getattr(settle(a), "how", None) for a in c.args if getattr(settle(a), "how", None)), "computed")
    return m.known(result, c.node, how, soft)


for _constant in ("pi", "e", "inf", "nan", "tau"):

    @MODEL.attribute("math." + _constant)
    def _value(m: Machine, base: Value, name: str, node: Any, key: Value | None) -> Value | None:
        return m.known(getattr(math, name.partition(".")[2]), node)
