"""Finds many literals in a buffer in one pass over its bytes: ahocorasick_rs where it is installed, else RE2, else ``re``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from preflight.source.logs.sieve import SHORTEST, Sieve

Found = Sequence[tuple[int, int, int]]
"""(number of the literal, first byte, byte after the last), by the byte after the last."""

_RE2_MEMORY = 512 << 20
"""Bytes that RE2 may spend on the automaton of the alternation; with its default of 8 MB it gives up on 600 literals."""
_LARGE = 1 << 18
"""A smaller buffer is read by the automaton alone."""
_WORTH = 8 << 20
"""A sieve takes as long to be made as the automaton takes for so many bytes."""
_DENSE = 0.4
"""Where more of a buffer than this is left by the sieve, it does not help."""
_RESTS = 8
"""Buffers after which it is tried again."""


class Finder:
    """Where a set of literals stands in a buffer; several that overlap are all found.

    Where few literals stand in much text, a sieve that is fitted to that text passes over most of it; it is fitted anew where
    the text changes, and left out where it does not help. What is found is the same.

    Attributes:
        engine: ``aho``, ``re2`` or ``re``.
    """

    def __init__(self, literals: Sequence[bytes], engine: str | None = None) -> None:
        """Build the automaton; ``engine`` takes another one than the best that is installed."""
        self._literals = tuple(literals)
        self.engine, self._find = _engine(self._literals, engine)
        self._sieve: Sieve | None = None
        self._rests = 0
        self._read = 0
        self._may_sieve = bool(literals) and min(map(len, literals)) >= SHORTEST

    def find(self, buffer: bytes) -> Found:
        """Return every occurrence, by its end."""
        if not self._literals:
            return ()
        self._read += len(buffer)
        if not self._may_sieve or len(buffer) < _LARGE or self._read < _WORTH:
            return self._find(buffer)
        self._rests -= 1
        return self._find(buffer) if self._rests > 0 else self._sifted(buffer)

    def _sifted(self, buffer: bytes) -> Found:
        if self._sieve is None:
            self._sieve = Sieve(self._literals, self._find)
            self._sieve.fit(buffer)
        kept = self._sieve.keep(buffer)
        if len(kept.data) > _DENSE * len(buffer):
            if self._rests < 0:  # it helped with the buffer before: this one is of another kind
                self._rests = 0
                self._sieve.fit(buffer)
            self._rests = _RESTS
            return self._find(buffer)
        return kept.placed(self._find(kept.data))


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
            # Bytes as they are, and only where a match begins: eight times as fast as text with groups.
            options.encoding = re2.Options.Encoding.LATIN1
            options.never_capture = True
            return "re2", _alternation(re2.compile(_trie(literals), options), literals, _set(re2, options, literals))
    import re

    return "re", _alternation(re.compile(_trie(literals)), literals, _beginnings(literals))


def _aho(module: Any, literals: tuple[bytes, ...]) -> Callable[[bytes], Found]:
    automaton = module.BytesAhoCorasick(
        literals, matchkind=module.MatchKind.Standard, implementation=module.Implementation.DFA
    )

    def find(buffer: bytes) -> Found:
        found: Found = automaton.find_matches_as_indexes(buffer, overlapping=True)
        return found

    return find


def _alternation(
    pattern: Any, literals: tuple[bytes, ...], among: Callable[[bytes], Iterable[int]]
) -> Callable[[bytes], Found]:
    """An alternation finds one literal at a place; ``among`` says which others are in its line."""

    def find(buffer: bytes) -> Found:
        found: list[tuple[int, int, int]] = []
        done = 0
        while (match := pattern.search(buffer, done)) is not None:
            place = match.start()
            # A literal may begin with the break before its line.
            begin = place if buffer.startswith(b"\n", place) else max(buffer.rfind(b"\n", 0, place) + 1, done)
            end = buffer.find(b"\n", place + 1)
            done = len(buffer) if end < 0 else end
            line = buffer[begin:done]
            in_line: list[tuple[int, int, int]] = []
            for number in among(line):
                literal = literals[number]
                at = line.find(literal)
                while at >= 0:
                    in_line.append((number, begin + at, begin + at + len(literal)))
                    at = line.find(literal, at + 1)
            found += sorted(in_line, key=lambda hit: hit[2])
        return found

    return find


def _set(module: Any, options: Any, literals: tuple[bytes, ...]) -> Callable[[bytes], Iterable[int]]:
    """Return what says which literals a line holds, by RE2's set of expressions."""
    together = module.Set.SearchSet(options)
    for literal in literals:
        together.Add(b"".join(b"\\x%02x" % byte for byte in literal))
    together.Compile()

    def matched(line: bytes) -> Iterable[int]:
        return together.Match(line) or ()  # None where it holds none

    return matched


def _beginnings(literals: tuple[bytes, ...]) -> Callable[[bytes], Iterable[int]]:
    """Return what says which literals a line holds, by looking at each of its places for the beginnings of all."""
    width = min(3, *map(len, literals)) if literals else 0
    beginning: dict[bytes, list[int]] = {}
    for number, literal in enumerate(literals):
        beginning.setdefault(literal[:width], []).append(number)

    def matched(line: bytes) -> Iterable[int]:
        starts = {line[at : at + width] for at in range(len(line) - width + 1)}
        return [number for start in starts for number in beginning.get(start, ()) if literals[number] in line]

    return matched


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
