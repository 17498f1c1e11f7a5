"""Asks the signatures whose literal stands in a line, and takes the fields out of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from preflight.source.logs import predicates
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
_MANY = 1 << 20
"""More ranks than this in one field are a misprint."""


class Matcher:
    """The signatures, ready to be asked.

    Attributes:
        signatures: In the order of their ids.
        literals: Every literal once, as bytes.
        of_literal: The numbers of the signatures that have it, by literal.
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
        self._regex = [_compiled(signature.regex) for signature in self.signatures]
        # RE2 makes the table of the names of its groups anew each time it is asked for it.
        self._groups = [tuple(regex.groupindex.items()) if regex is not None else () for regex in self._regex]
        self._detail = [_compiled(signature.detail) for signature in self.signatures]
        self.weighs_numbers = tuple(
            signature.predicate is not None or _DIGIT.search(_QUANTIFIED.sub("", signature.regex or "")) is not None
            for signature in self.signatures
        )
        self._predicate = [predicates.named(signature.predicate) for signature in self.signatures]

    def take(self, number: int, text: str, begin: int) -> dict[str, Value] | None:
        """Return the fields of a line that a signature takes, or None.

        Args:
            number: Of the signature, one of whose literals is in the line.
            text: The line without colours.
            begin: Where its text begins, behind the prefixes.
        """
        signature = self.signatures[number]
        pattern = self._regex[number]
        groups: dict[str, str | None] = {}
        if pattern is not None:
            shown = text if len(text) <= LONGEST else self._around(number, text)
            match = pattern.search(shown)
            if match is None and "^" in (signature.regex or "") and begin:
                match = pattern.search(text[begin : begin + LONGEST])
            if match is None:
                return None
            groups = {name: match[index] for name, index in self._groups[number]}
        fields = converted(signature, groups)
        predicate = self._predicate[number]
        if predicate is not None and not predicate(fields, text):
            return None
        return fields

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
