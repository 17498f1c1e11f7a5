"""Asks the signatures whose literal stands in a line, and takes the fields out of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from preflight.source.logs import predicates
from preflight.source.logs.steps import step_of
from preflight.vocabulary.finding import Scalar
from preflight.vocabulary.signature import Signature

Value = Scalar | tuple[int, ...]
LONGEST = 4000
"""Characters of a line that an expression is shown."""

_UNITS = {"": 1, "b": 1, "byte": 1, "bytes": 1}
_UNITS |= {f"{letter}{i}b": 1 << 10 * power for power, letter in enumerate("kmgtp", 1) for i in ("i", "")}
_UNITS |= {letter: 1 << 10 * power for power, letter in enumerate("kmgtp", 1)}
_RANGE = re.compile(r"(\d+)(?:\s?(?:-|\.\.)\s?(\d+))?")
_QUANTIFIED = re.compile(r"\{\d*,?\d*\}|0-9|\(\?P<\w+>")
_DIGIT = re.compile(r"\d")
_NOUGHTS = bytes.maketrans(b"123456789", b"000000000")
_MOST_PLACES = 4096
_MANY = 1 << 20
"""More ranks than this in one field are a misprint."""

Places = tuple[tuple[str, int, int], ...]
"""Where the groups of an expression are in a line: name, first character, the one after the last; -1 twice: nowhere."""


class Matcher:
    """The signatures, ready to be asked.

    Attributes:
        signatures: In the order of their ids.
        literals: Every literal once, as bytes.
        of_literal: The numbers of the signatures that have it, by literal.
        of_steps: The numbers of those that only take lines of steps, and say no more of them than that it goes on.
        weighs_numbers: By signature: it may take a line and refuse another one that differs from it in numbers alone.
    """

    def __init__(self, signatures: Sequence[Signature]) -> None:
        """Compile the expressions."""
        self.signatures = tuple(signatures)
        by_literal: dict[bytes, list[int]] = {}
        for number, signature in enumerate(self.signatures):
            for literal in signature.literals:
                by_literal.setdefault(literal.encode(), []).append(number)
        self.literals = tuple(by_literal)
        self.of_literal = tuple(tuple(numbers) for numbers in by_literal.values())
        self.of_steps = frozenset(number for number, signature in enumerate(self.signatures) if _of_steps(signature))
        self._regex = [_compiled(signature.regex) for signature in self.signatures]
        # RE2 makes the table of the names of its groups anew each time it is asked for it.
        self._groups = [tuple(regex.groupindex.items()) if regex is not None else () for regex in self._regex]
        # All digits are one to an expression without digits of its own: of lines that differ in digits alone it takes each or
        # none, and finds its groups at the same places.
        self._steady = [not _DIGIT.search(_QUANTIFIED.sub("", signature.regex or "")) for signature in self.signatures]
        self._places: dict[tuple[int, int, bytes], Places | None] = {}
        self._detail = [_compiled(signature.detail) for signature in self.signatures]
        self.weighs_numbers = tuple(
            signature.predicate is not None or not steady
            for signature, steady in zip(self.signatures, self._steady, strict=True)
        )
        self._predicate = [predicates.named(signature.predicate) for signature in self.signatures]

    def take(self, number: int, text: str, begin: int) -> dict[str, Value] | None:
        """Return the fields of a line that a signature takes, or None.

        Args:
            number: Of the signature, one of whose literals is in the line.
            text: The line without colours.
            begin: Where its text begins, behind the prefixes.
        """
        groups: dict[str, str | None] = {}
        if self._regex[number] is not None:
            shown = text
            if len(text) <= LONGEST:
                places = self._known(number, text, begin)
            else:
                shown = self._around(number, text)
                places = self._found(number, shown, 0)
                if places is None and begin and self._anchored(number):
                    shown = text[begin : begin + LONGEST]
                    places = self._found(number, shown, 0)
            if places is None:
                return None
            groups = {name: shown[start:end] if start >= 0 else None for name, start, end in places}
        fields = converted(self.signatures[number], groups)
        predicate = self._predicate[number]
        if predicate is not None and not predicate(fields, text):
            return None
        return fields

    def _known(self, number: int, text: str, begin: int) -> Places | None:
        """Return where the groups are in a line, which is looked for once for all lines that differ in digits alone."""
        if not self._steady[number] or not text.isascii():
            return self._found(number, text, begin)
        key = number, begin, text.encode().translate(_NOUGHTS)
        try:
            return self._places[key]
        except KeyError:
            if len(self._places) >= _MOST_PLACES:
                self._places.clear()
            places = self._places[key] = self._found(number, text, begin)
            return places

    def _found(self, number: int, text: str, begin: int) -> Places | None:
        pattern, by = self._regex[number], 0
        match = pattern.search(text)
        if match is None and begin and self._anchored(number):
            match, by = pattern.search(text[begin:]), begin
        if match is None:
            return None
        spans = ((name, *match.span(index)) for name, index in self._groups[number])
        return tuple((name, start + by, end + by) if start >= 0 else (name, -1, -1) for name, start, end in spans)

    def _anchored(self, number: int) -> bool:
        return "^" in (self.signatures[number].regex or "")

    def _around(self, number: int, text: str) -> str:
        """Of a line that is very long, what stands around the first literal."""
        places = [place for literal in self.signatures[number].literals if (place := text.find(literal)) >= 0]
        begin = max(min(places, default=0) - LONGEST // 2, 0)
        return text[begin : begin + LONGEST]

    def detail(self, number: int, lines: Sequence[str]) -> dict[str, Value]:
        """Return the further fields that the lines below hold."""
        pattern = self._detail[number]
        found: dict[str, str | None] = {}
        for line in lines if pattern is not None else ():
            match = pattern.search(line[:LONGEST])
            for name, text in match.groupdict().items() if match else ():
                if text is not None:
                    found.setdefault(name, text)
        return converted(self.signatures[number], found)


def _of_steps(signature: Signature) -> bool:
    """Return whether each line that a signature takes is that of a numbered step, by its examples, and marks nothing."""
    if signature.role != "progress" or signature.marks is not None:
        return False
    told = [step_of(example) for example in signature.match]
    return bool(told) and all(step is not None and step.step is not None for step in told)


def _compiled(pattern: str | None) -> Any:
    if pattern is None:
        return None
    try:
        import re2
    except ImportError:
        return re.compile(pattern)
    return re2.compile(pattern)


def converted(signature: Signature, groups: dict[str, str | None]) -> dict[str, Value]:
    """Give the groups of an expression the kinds that the signature says; what is not so is left out."""
    values: dict[str, Value] = {}
    for name, kind in signature.fields.items():
        text = groups.get(name)
        if text is None:
            continue
        value: Value = text
        try:
            if kind == "int":
                value = int(text.replace(",", "").replace("_", ""), 16 if text.startswith("0x") else 10)
            elif kind == "float":
                value = float(text.replace(",", ""))
            elif kind == "bytes":
                value = amount(text, groups.get(f"{name}_unit"))
            elif kind == "ranks":
                value = ranks(text)
        except (ValueError, OverflowError):
            continue
        values[name] = value
    return values


def amount(number: str, unit: str | None) -> int:
    """Return bytes: ``("1.50", "GiB")``; kilobytes and the like are taken as powers of 1,024, as CUDA and Linux do.

    Raises:
        ValueError: It is no number, or the unit is none.
    """
    factor = _UNITS.get((unit or "").strip().lower())
    if factor is None:
        raise ValueError(f"{unit} is no unit of bytes")
    return round(float(number.replace(",", "")) * factor)


def ranks(text: str) -> tuple[int, ...]:
    """Return the ranks of a list as it is printed: ``1, 2``, ``[0, 3]``, ``4-7``."""
    found: list[int] = []
    for first, last in _RANGE.findall(text):
        begin, end = int(first), int(last or first)
        if end < begin or end - begin > _MANY:
            continue
        found.extend(range(begin, end + 1))
    return tuple(dict.fromkeys(found))
