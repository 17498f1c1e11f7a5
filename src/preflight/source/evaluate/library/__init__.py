"""What library calls are worth: one file for one library, found by the first part of the name.

A file ``library/torch.py`` holds ``CALLS``: handlers by full name (``torch.compile``), by method on a type
(``argparse.ArgumentParser.add_argument``), or by ``@name`` for use as a decorator; and ``ATTRIBUTES`` likewise.
``library/methods.py`` holds methods on things whose type is not known (``.to``).
A handler returns None where it has nothing to say.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING

from preflight.listing import modules_beside
from preflight.source.values import Value
from preflight.source.values.arguments import Arguments

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine
    from preflight.source.trace import Event


class Call(Arguments):
    """A call of something outside the project."""

    __slots__ = ("args", "event", "kwargs", "name", "node", "open", "receiver")

    def __init__(
        self,
        name: str,
        receiver: Value | None,
        args: list[Value],
        kwargs: dict[str, Value],
        node: ast.AST,
        open_: bool,
        event: Event,
    ) -> None:
        self.name = name
        self.receiver = receiver
        self.args = args
        self.kwargs = kwargs
        self.node = node
        self.open = open_
        self.event = event


Handler = Callable[["Machine", Call], "Value | None"]
AttributeHandler = Callable[["Machine", Value, str, ast.AST, "Value | None"], "Value | None"]


class Model:
    """The handlers of one library."""

    def __init__(self) -> None:
        """Start empty."""
        self.calls: dict[str, Handler] = {}
        self.attributes: dict[str, AttributeHandler] = {}

    def call(self, *names: str) -> Callable[[Handler], Handler]:
        """Register a handler of calls by full names."""

        def register(handler: Handler) -> Handler:
            for name in names:
                self.calls[name] = handler
            return handler

        return register

    def attribute(self, *names: str) -> Callable[[AttributeHandler], AttributeHandler]:
        """Register a handler of attributes by full names."""

        def register(handler: AttributeHandler) -> AttributeHandler:
            for name in names:
                self.attributes[name] = handler
            return handler

        return register


@lru_cache(maxsize=1)
def _files() -> frozenset[str]:
    return frozenset(modules_beside(__file__))


@lru_cache(maxsize=512)
def model_of(library: str) -> Model | None:
    """The model of a library by the first part of its names, or None."""
    if library not in _files():
        return None
    found = import_module(f"{__name__}.{library}").MODEL
    return found if isinstance(found, Model) else None


def library_call(machine: Machine, call: Call) -> Value | None:
    """The value of a library call, or None where it is not modelled."""
    name = call.name
    first = "methods" if name.startswith(".") else name.lstrip("@").partition(".")[0]
    model = model_of(first)
    handler = model.calls.get(name) if model is not None else None
    if handler is None:
        return None
    try:
        return handler(machine, call)
    except (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError) as error:
        # A gap in a model costs one value and says so; it must not cost the whole reading.
        machine.trace.notes.append(f"{name} was not understood: {type(error).__name__}: {error}"[:200])
        return machine.unknown(f"a call of {name.lstrip('.@')} that is not understood", call.node)


def library_attribute(
    machine: Machine, base: Value, name: str, node: ast.AST, key: Value | None = None
) -> Value | None:
    """The value of a library attribute by full name, or None where it is not modelled."""
    model = model_of(name.partition(".")[0])
    handler = model.attributes.get(name) if model is not None else None
    return handler(machine, base, name, node, key) if handler is not None else None
