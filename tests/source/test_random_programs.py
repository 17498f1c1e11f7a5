"""Random programs: whatever the evaluator claims to know is what Python computes."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preflight.source.reading import read
from preflight.source.script import parse
from preflight.source.values import plain

pytestmark = pytest.mark.slow

QUICK = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)

NUMBERS = st.one_of(
    st.integers(-1000, 1000).map(repr),
    st.sampled_from(["1e-4", "0.5", "3.0", "2.5e3", "True", "False", "0x10", "1_000", "10**3"]),
)
WORDS = st.sampled_from(["''", "'a'", "'xyz'", "'adam'"])


def _expressions(names: list[str]) -> st.SearchStrategy[str]:
    leaves = NUMBERS if not names else st.one_of(NUMBERS, st.sampled_from(names))

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        binary = st.builds(
            "({} {} {})".format,
            inner,
            st.sampled_from(["+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>"]),
            inner,
        )
        compare = st.builds("({} {} {})".format, inner, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), inner)
        logic = st.builds("({} {} {})".format, inner, st.sampled_from(["and", "or"]), inner)
        unary = st.builds("({}{})".format, st.sampled_from(["-", "+", "not ", "~"]), inner)
        choose = st.builds("({} if {} else {})".format, inner, inner, inner)
        call = st.builds("{}({})".format, st.sampled_from(["abs", "int", "float", "bool", "str", "round"]), inner)
        pair = st.builds("max({}, {})".format, inner, inner)
        return st.one_of(binary, compare, logic, unary, choose, call, pair)

    return st.recursive(leaves, grow, max_leaves=5)


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and (a == b or (a != a and b != b))


def worth(text: str) -> dict[str, Any]:
    """What following a text says of its global names; an ellipsis where it does not know."""
    reading = read(parse(text.encode(), "t.py"))
    assert reading.trace.exhausted is None
    assert not reading.trace.notes
    return {name: plain(value, ...) for name, value in reading.machine.module.namespace.items()}


@QUICK
@given(_expressions([]))
def test_literal_expressions_are_worth_what_python_computes(text: str) -> None:
    try:
        real = eval(text)
    except (ArithmeticError, TypeError, ValueError):
        return
    if isinstance(real, int) and real.bit_length() > 2000:
        return
    known = worth(f"x = {text}")["x"]
    assert _same(known, real)


@st.composite
def _programs(draw: st.DrawFn) -> str:
    """Assignments, branches, loops over known ranges, lists and functions, over a few names."""
    names = ["a", "b", "c"]
    lines = [
        "a = 1",
        "b = 2.5",
        "c = 3",
        "xs = []",
        "d = {}",
        f"def f(p, q=2):\n    return {draw(_expressions(['p', 'q']))}",
    ]

    def block(depth: int, indent: str) -> None:
        for _ in range(draw(st.integers(1, 4))):
            statement(depth, indent)

    def statement(depth: int, indent: str) -> None:
        kind = draw(
            st.sampled_from(
                ["assign", "aug", "append", "item", "call", "if", "for", "while", "swap", "try"]
                if depth < 3
                else ["assign", "aug", "append"]
            )
        )
        name, value = draw(st.sampled_from(names)), draw(_expressions(names))
        if kind == "assign":
            lines.append(f"{indent}{name} = {value}")
        elif kind == "aug":
            lines.append(f"{indent}{name} {draw(st.sampled_from(['+=', '-=', '*=']))} {draw(st.integers(-3, 3))}")
        elif kind == "append":
            lines.append(f"{indent}xs.append({value})")
        elif kind == "item":
            lines.append(f"{indent}d[{draw(st.sampled_from(['1', repr('k'), 'c']))}] = {value}")
        elif kind == "call":
            lines.append(f"{indent}{name} = f({value})")
        elif kind == "swap":
            lines.append(f"{indent}a, c = c, a")
        elif kind == "if":
            lines.append(f"{indent}if {value}:")
            block(depth + 1, indent + "    ")
            if draw(st.booleans()):
                lines.append(f"{indent}else:")
                block(depth + 1, indent + "    ")
        elif kind == "for":
            lines.append(f"{indent}for i{depth} in range({draw(st.integers(0, 4))}):")
            block(depth + 1, indent + "    ")
            if draw(st.booleans()):
                lines.append(f"{indent}    if {value}: {draw(st.sampled_from(['break', 'continue']))}")
        elif kind == "while":
            lines.append(
                f"{indent}w{depth} = 0\n{indent}while w{depth} < {draw(st.integers(0, 3))}:\n{indent}    w{depth} += 1"
            )
            block(depth + 1, indent + "    ")
        else:
            lines.append(
                f"{indent}try:\n{indent}    {name} = {draw(NUMBERS)}\n{indent}finally:\n{indent}    c = {draw(NUMBERS)}"
            )

    block(0, "")
    return "\n".join(lines)


@QUICK
@pytest.mark.filterwarnings("ignore:Bitwise inversion:DeprecationWarning")  # said by Python 3.12 and newer of ~True
@given(_programs())
def test_what_is_claimed_of_a_program_is_what_it_computes(text: str) -> None:
    ast.parse(text)
    scope: dict[str, Any] = {}
    try:
        exec(text, scope)
    except (ArithmeticError, TypeError, ValueError, MemoryError):
        return  # what a program holds after an error is nobody's question
    known = worth(text)
    for name in ("a", "b", "c", "xs", "d"):
        assert known[name] is ... or _same(known[name], scope[name]), (name, known[name], scope[name])
