"""Numbers with the words that they count."""

from __future__ import annotations


def counted(number: int, one: str, more: str = "") -> str:
    """A number and what it counts, as a sentence says it.

    Args:
        number: How many there are.
        one: The words for one of them, with a verb where one follows.
        more: The words for several; ``one`` with an ``s`` where nothing is given.

    Example:
        >>> counted(1, "parameter was changed", "parameters were changed")
        '1 parameter was changed'
        >>> counted(1200, "step")
        '1200 steps'
    """
    return f"{number} {one if number == 1 else more or f'{one}s'}"
