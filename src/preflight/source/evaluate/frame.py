"""The scopes in which a script is followed."""

from __future__ import annotations

from typing import Any

from preflight.source.trace import Context
from preflight.source.values import Func, Module, Value


class Exhausted(Exception):
    """The budget of the evaluation is used up."""


class Frame:
    """The scope of one function, class body or module."""

    __slots__ = (
        "closure",
        "comprehension",
        "func",
        "globals_",
        "locals",
        "module",
        "nonlocals",
        "owner",
        "returns",
        "self_value",
        "yields",
    )

    def __init__(
        self, module: Module, locals_: dict[str, Value], closure: Frame | None = None, func: Func | None = None
    ) -> None:
        self.module = module
        self.locals = locals_
        self.closure = closure
        self.func = func
        self.returns: list[tuple[Value, bool]] = []
        self.yields: list[tuple[Value, Context]] = []
        self.globals_: set[str] = set()
        self.nonlocals: set[str] = set()
        self.self_value: Value | None = None
        self.owner: Any = None
        self.comprehension = False
