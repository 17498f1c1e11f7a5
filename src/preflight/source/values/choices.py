"""Values that depend on a branch that was not decided."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from preflight.source.values.kinds import Ext, Known, Site, Value

if TYPE_CHECKING:
    pass


class Choice(Value):
    """One of several values, depending on a branch that could not be decided or that an option decides.

    Attributes:
        options: The possible values.
        preferred: Index of the value that the defaults lead to, or None when the branch is not known.
        test: The value that decided, where known.
    """

    __slots__ = ("options", "preferred", "test")

    def __init__(self, options: tuple[Value, ...], preferred: int | None = None, test: Value | None = None) -> None:
        self.options = options
        self.preferred = preferred
        self.test = test
        self.site = options[0].site if options else None

    def __repr__(self) -> str:
        return f"Choice({list(self.options)!r}, preferred={self.preferred})"


class Phi(Value):
    """A variable that a loop carries: its value before the loop, and its value at the end of the body."""

    __slots__ = ("final", "initial", "name")

    def __init__(self, name: str, initial: Value, site: Site | None = None) -> None:
        self.name = name
        self.initial = initial
        self.final: Value | None = None
        self.site = site

    def __repr__(self) -> str:
        return f"Phi({self.name}, {self.initial!r})"


MAX_OPTIONS = 6


def join(first: Value, second: Value, preferred: int | None = None, test: Value | None = None) -> Value:
    """Return the value that is either of two; ``preferred`` says which one the defaults lead to (0 or 1)."""
    if first is second:
        return first
    if (
        isinstance(first, Known)
        and isinstance(second, Known)
        and type(first.value) is type(second.value)
        and first.value == second.value
    ):
        return first
    if isinstance(first, Ext) and isinstance(second, Ext) and first.name == second.name:
        return first
    options: list[Value] = []
    wanted = (first, second)[preferred] if preferred is not None else None
    if isinstance(wanted, Choice):
        wanted = wanted.options[wanted.preferred] if wanted.preferred is not None else None
    for value in (first, second):
        for option in value.options if isinstance(value, Choice) else (value,):
            if not any(option is other for other in options):
                options.append(option)
    if len(options) > MAX_OPTIONS:
        options = [o for o in options if o is wanted] + [o for o in options if o is not wanted]
        options = options[:MAX_OPTIONS]
    index = next((i for i, o in enumerate(options) if o is wanted), None) if wanted is not None else None
    return options[0] if len(options) == 1 else Choice(tuple(options), index, test)


def settle(value: Value) -> Value:
    """Return the value that the defaults lead to: see through choices with a preference and loop-carried names."""
    if not isinstance(value, (Choice, Phi)):
        return value
    for _ in range(20):
        if isinstance(value, Choice) and value.preferred is not None:
            value = value.options[value.preferred]
        elif isinstance(value, Phi):
            value = value.initial
        else:
            break
    return value


def options_of(value: Value | None, limit: int = 12) -> Iterator[Value]:
    """Yield all values that this one can be, the preferred one first."""
    if value is None or not limit:
        return
    if not isinstance(value, (Choice, Phi)):
        yield value
        return
    stack: list[Value] = [value]
    seen: set[int] = set()
    while stack and limit:
        value = stack.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Choice):
            order = list(value.options)
            if value.preferred is not None:
                order.insert(0, order.pop(value.preferred))
            stack.extend(reversed(order))
        elif isinstance(value, Phi):
            if value.final is not None and value.final is not value:
                stack.append(value.final)
            stack.append(value.initial)
        else:
            limit -= 1
            yield value
