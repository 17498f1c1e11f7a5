"""Rows of every kind, as hypothesis strategies and as plain examples."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from preflight.monitor.collect.columns import TABLES

INTEGERS = st.integers(min_value=-(2**63), max_value=2**64)
TEXT = st.text(max_size=12)
FLOATS = st.floats(allow_nan=True)
JSON = st.recursive(
    st.none() | st.booleans() | INTEGERS | FLOATS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OF_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "count": st.none() | INTEGERS,
    "int": st.none() | INTEGERS,
    "float": st.none() | FLOATS,
    "bool": st.none() | st.booleans(),
    "word": st.none() | st.sampled_from(["", "train", "eval\n", "é", "\ud800"]),
    "text": st.none() | TEXT,
    "shape": st.none() | st.lists(st.integers(0, 9), max_size=3),
    "ints": st.none() | st.lists(st.none() | INTEGERS, max_size=4) | st.lists(st.integers(0, 2**63 - 1), max_size=4),
    "floats": st.none() | st.lists(st.none() | FLOATS, max_size=4) | st.lists(FLOATS | st.just(0), max_size=4),
    "json": JSON,
}


def row_of(kind: str) -> st.SearchStrategy[tuple[Any, ...]]:
    """Rows whose values are of the declared types."""
    return st.tuples(*(OF_TYPE[declared] for declared in TABLES[kind].values()))


ROWS = st.sampled_from(sorted(TABLES)).flatmap(lambda kind: st.tuples(st.just(kind), row_of(kind)))
ODD_ROWS = st.sampled_from(sorted(TABLES)).flatmap(
    lambda kind: st.tuples(st.just(kind), st.tuples(*(JSON for _ in TABLES[kind])))
)
"""Rows whose values are of any type that JSON knows."""


def call(q: int, i: int = 0, name: str = "forward") -> tuple[Any, ...]:
    """A call."""
    return (q, q, 1000 * q, 10, i, i, name, "model", -1, 1, "train.py:7", "train,grad", None, None, None)


def begin(q: int = 0, rank: int = 0, world: int = 1, pid: int = 7, **more: Any) -> tuple[Any, ...]:
    """The first row of a process."""
    row = dict.fromkeys(TABLES["begin"])
    row |= {"q": q, "t": 0, "wall": 1000.0, "role": "trainer", "rank": rank, "local_rank": rank, "world": world}
    row |= {"pid": pid, "parent": 1, "host": "here", "python": "3.11", "torch": "2.13", "argv": ["train.py"]}
    row |= {"directory": ".", "recorder": "0.1.0"}
    return tuple((row | more).values())


def end(
    q: int, i: int = 0, how: str = "exit", dropped: int = 0, t: int = 0, error: str | None = None
) -> tuple[Any, ...]:
    """The last row of a process."""
    return (q, t, i, i, how, 0, error, 5, dropped)


def same(left: Any, right: Any) -> bool:
    """Whether two values are written alike: types count, NaN equals NaN, tuples are lists."""
    return spelled(left) == spelled(right)


def spelled(value: Any) -> str:
    """Return the value as text that tells 1 from 1.0 and from True."""
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(spelled, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key!r}:{spelled(item)}" for key, item in value.items()) + "}"
    return repr(value)
