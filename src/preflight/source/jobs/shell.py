"""Just enough of a shell to know the words of the commands that a job script runs.

Nothing is executed. What only a running shell knows (the output of a command, a variable that nobody sets) stays
unknown, and a word that needs it is marked with `UNKNOWN`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from preflight.source.jobs.words import Command, Piece, Reader, Word

UNKNOWN = "\0"
"""Stands in a word for text that only the running shell knows."""

_OWN_FOLDER = re.compile(r"dirname\b.*(?:\$0|\$\{0\}|BASH_SOURCE)")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)

_LONGEST, _MOST_WORDS, _LONGEST_SUM = 100_000, 10_000, 1_000
"""Longer values, arrays and sums are cut off or unknown: nobody writes them, and a script may double a value at will."""
_DEEPEST = 20
"""Defaults within defaults (``${A:-${B:-...}}``) are followed so deep."""


class Shell:
    """What a script knows while it runs: its variables, arrays and arguments."""

    def __init__(self, variables: Mapping[str, str], arguments: tuple[str, ...] = (), path: str = "") -> None:
        self.path = path
        self.variables: dict[str, str] = dict(variables)
        self.arrays: dict[str, tuple[str, ...]] = {}
        self.arguments = arguments
        self._depth = 0

    def assign(self, command: Command) -> tuple[str, ...]:
        """Carry out the assignments of a command and return its other words, expanded.

        An assignment in front of a command holds for that command alone, and is returned as a word.
        """
        for name, words in command.arrays.items():
            before = self.arrays.get(name[:-1], ()) if name.endswith("+") else ()
            self.arrays[name.rstrip("+")] = (*before, *self.expand(words))[:_MOST_WORDS]
        remaining = list(command.words)
        leading: list[str] = []
        while remaining and (found := _ASSIGNMENT.fullmatch("".join(piece.text for piece in remaining[0]))):
            value = "".join(self._text(piece) for piece in remaining.pop(0)).partition("=")[2][:_LONGEST]
            if found[2]:
                value = (self.variables.get(found[1], "") + value)[:_LONGEST]
            leading.append(f"{found[1]}={value}")
        rest = tuple(self.expand(remaining))
        if not rest:
            self._set(leading)
        elif rest[0] in ("export", "declare", "local", "readonly", "typeset"):
            self._set([word for word in rest[1:] if _ASSIGNMENT.fullmatch(word)])
            return ()
        elif rest[0] == "for" and len(rest) > 3 and rest[2] == "in":
            self.variables[rest[1]] = rest[3]  # its first round stands for all
            return ()
        elif rest[0] == "shift":
            self.arguments = self.arguments[(number(rest[1]) or 0) if rest[1:] else 1 :]
        return (*leading, *rest) if rest else ()

    def _set(self, assignments: list[str]) -> None:
        for assignment in assignments:
            name, _, value = assignment.partition("=")
            self.variables[name.rstrip("+")] = value[:_LONGEST]

    def expand(self, words: tuple[Word, ...] | list[Word]) -> Iterator[str]:
        """Yield the words that the shell would make of these."""
        for word in words:
            yield from self._expanded(word)

    def _expanded(self, word: Word) -> Iterator[str]:
        made: list[str] = []  # the last one is still growing
        without = False
        for piece in word:
            many = self._elements(piece.text) if piece.expands else None
            if many is not None and not piece.splits and "*" in piece.text:
                many = (" ".join(many),)
            text = self._text(piece) if many is None else ""
            split = piece.splits and piece.expands and piece.text[:1] in "$`"
            if many is None:
                many = tuple(text.split()) if split else (text,)
            if not many:
                without = without or (not piece.splits and "@" in piece.text)
                continue
            if split and text[:1].isspace() and made:
                made.append("")
            made[-1:] = [(made[-1] if made else "") + many[0], *many[1:]]
        if without and made == [""]:
            return  # "$@" without arguments is no word, unlike ""
        yield from made

    def _elements(self, text: str) -> tuple[str, ...] | None:
        """The elements of ``$@`` and ``${NAME[@]}``; None for anything else."""
        if text in ("$@", "$*", "${@}", "${*}"):
            return self.arguments
        if found := re.fullmatch(r"\$\{@:(\d{1,6})\}", text):
            return self.arguments[max(int(found[1]) - 1, 0) :]
        found = re.fullmatch(r"\$\{(\w+)\[[@*]\]\}", text)
        return self.arrays.get(found[1]) if found else None

    def _text(self, piece: Piece) -> str:
        if not piece.expands or piece.text[:1] not in "$`":
            return piece.text
        return self.value(piece.text)

    def value(self, text: str) -> str:
        """The value of an expansion such as ``${NAME:-8}``, or `UNKNOWN`."""
        if text.startswith("$(("):
            return self._arithmetic(text[3:].removesuffix(")").removesuffix(")"))
        if text.startswith(("$(", "`")) or text == "$":
            return self._output(text) if len(text) > 1 else text
        inner = text[2:-1] if text.startswith("${") else text[1:]
        if element := re.fullmatch(r"(\w+)\[(\d{1,6})\]", inner):
            elements, place = self.arrays.get(element[1], ()), int(element[2])
            return elements[place] if place < len(elements) else UNKNOWN
        found = re.fullmatch(r"(\w+|[@*#?])(?:(:?[-=])(.*)|.*)", inner, re.DOTALL)
        if found is None:
            return UNKNOWN
        known = self._variable(found[1])
        if found[2] and (known is None or (known == "" and found[2].startswith(":"))):
            return "".join(self._within(found[3]))
        if known is None or (found[2] is None and found[1] != inner):
            return UNKNOWN
        return known

    def _output(self, text: str) -> str:
        """The output of a command, where it is the script's own folder or the current one; else `UNKNOWN`."""
        inner = text.strip("$()`").strip()
        if inner == "pwd":
            return self.variables.get("PWD", "") or "."
        if _OWN_FOLDER.search(inner):
            above = "/".join([".."] * inner.count("dirname", inner.find("dirname") + 1))
            up = re.search(r"(?:\.\./?)+", inner)
            return os.path.normpath(os.path.join(os.path.dirname(self.path) or ".", above, up[0] if up else ""))
        return UNKNOWN

    def _variable(self, name: str) -> str | None:
        place = number(name)
        if place is not None:
            return self.arguments[place - 1] if 1 <= place <= len(self.arguments) else None
        if name == "#":
            return str(len(self.arguments))
        return self.variables.get(name)

    def _within(self, text: str) -> Iterator[str]:
        if self._depth >= _DEEPEST:
            yield UNKNOWN
            return
        word = Reader(text if "'" in text or '"' in text else f'"{text}"').word()
        self._depth += 1
        try:
            yield from [self._text(piece) for piece in word]
        finally:
            self._depth -= 1

    def _arithmetic(self, text: str) -> str:
        """Whole numbers with ``+ - * / %`` and brackets."""
        import ast

        numbers = re.sub(
            r"\$?\{?([A-Za-z_]\w*)\}?", lambda name: self.variables.get(name[1], UNKNOWN), text.replace("$((", "((")
        )
        if len(numbers) > _LONGEST_SUM:
            return UNKNOWN
        try:
            found = _whole(ast.parse(numbers.strip(), mode="eval").body)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return UNKNOWN
        return UNKNOWN if found is None or abs(found) >= 1 << 63 else str(found)


def number(text: str) -> int | None:
    """The whole number that a word is, or None; words longer than nine digits are none."""
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 10 else None


def _whole(node: object) -> int | None:
    import ast
    import operator

    does = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.BinOp):
        left, right = _whole(node.left), _whole(node.right)
        if left is None or right is None:
            return None
        if type(node.op) in does:
            return int(does[type(node.op)](left, right))
        if isinstance(node.op, (ast.Div, ast.FloorDiv, ast.Mod)) and right:
            # The shell rounds towards zero.
            quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
            return left - quotient * right if isinstance(node.op, ast.Mod) else quotient
    return None
