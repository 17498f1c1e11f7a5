"""Finds many literals in a buffer in one pass over its bytes: ahocorasick_rs where it is installed, else RE2, else ``re``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Found = Sequence[tuple[int, int, int]]
"""(number of the literal, first byte, byte after the last), by the byte after the last."""

_RE2_MEMORY = 512 << 20
"""Bytes that RE2 may spend on the automaton of the alternation; with its default of 8 MB it gives up on 600 literals."""


class Finder:
    """Where a set of literals stands in a buffer; several that overlap are all found.

    Attributes:
        engine: ``aho``, ``re2`` or ``re``.
    """

    def __init__(self, literals: Sequence[bytes], engine: str | None = None) -> None:
        """Build the automaton; ``engine`` takes another one than the best that is installed."""
        self._literals = tuple(literals)
        self.engine, self._find = _engine(self._literals, engine)

    def find(self, buffer: bytes) -> Found:
        """Return every occurrence, by its end."""
        return self._find(buffer) if self._literals else ()


def _engine(literals: tuple[bytes, ...], wanted: str | None) -> tuple[str, Callable[[bytes], Found]]:
    if wanted in (None, "aho"):
        try:
            import ahocorasick_rs
        except ImportError:
            if wanted:
                raise
        else:
            return "aho", _aho(ahocorasick_rs, literals)
    if wanted in (None, "re2"):
        try:
            import re2
        except ImportError:
            if wanted:
                raise
        else:
            options = re2.Options()
            options.max_mem = _RE2_MEMORY
            return "re2", _alternation(re2.compile(_trie(literals), options), literals)
    import re

    return "re", _alternation(re.compile(_trie(literals)), literals)


def _aho(module: Any, literals: tuple[bytes, ...]) -> Callable[[bytes], Found]:
    automaton = module.BytesAhoCorasick(
        literals, matchkind=module.MatchKind.Standard, implementation=module.Implementation.DFA
    )

    def find(buffer: bytes) -> Found:
        found: Found = automaton.find_matches_as_indexes(buffer, overlapping=True)
        return found

    return find


def _alternation(pattern: Any, literals: tuple[bytes, ...]) -> Callable[[bytes], Found]:
    """An alternation finds one literal at a place; the line that it is in is searched for the others."""

    def find(buffer: bytes) -> Found:
        found: list[tuple[int, int, int]] = []
        done = 0
        for match in pattern.finditer(buffer):
            place = match.start()
            if place < done:
                continue
            begin = buffer.rfind(b"\n", 0, place) + 1
            end = buffer.find(b"\n", place)
            done = len(buffer) if end < 0 else end + 1
            line = buffer[begin:done]
            in_line: list[tuple[int, int, int]] = []
            for number, literal in enumerate(literals):
                at = line.find(literal)
                while at >= 0:
                    in_line.append((number, begin + at, begin + at + len(literal)))
                    at = line.find(literal, at + 1)
            found += sorted(in_line, key=lambda hit: hit[2])
        return found

    return find


def _trie(literals: tuple[bytes, ...]) -> bytes:
    """Write the literals as one expression in which common beginnings stand once: a third of the work for ``re``."""
    root: dict[int, Any] = {}
    for literal in literals:
        node = root
        for byte in literal:
            node = node.setdefault(byte, {})
        node[-1] = {}
    return _written(root)


def _written(node: dict[int, Any]) -> bytes:
    if -1 in node or not node:  # the shortest literal is enough to find the line
        return b""
    branches = [b"\\x%02x" % byte + _written(below) for byte, below in sorted(node.items())]
    return branches[0] if len(branches) == 1 else b"(?:" + b"|".join(branches) + b")"
