"""Arguments of a call, by position or keyword."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from preflight.source.values.kinds import Value


class Arguments:
    """What a call was given.

    Attributes:
        args: Positional arguments.
        kwargs: Keyword arguments.
    """

    __slots__ = ()

    args: list[Value]
    kwargs: dict[str, Value]

    def argument(self, position: int, keyword: str) -> Value | None:
        """Return the argument given by position or keyword, or None when it was not given."""
        if keyword in self.kwargs:
            return self.kwargs[keyword]
        if 0 <= position < len(self.args):
            return self.args[position]
        return None
