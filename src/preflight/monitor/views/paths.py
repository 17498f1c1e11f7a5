"""Names of variables and modules as paths: the modules that a thing lies in."""

from __future__ import annotations


def outer_modules(name: str) -> list[str]:
    """The modules that a variable or a module lies in, the outermost first.

    Example:
        >>> outer_modules("net.head.weight")
        ['net', 'net.head']
    """
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]
