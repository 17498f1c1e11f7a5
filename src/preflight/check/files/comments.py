"""Suppression comments as they are written in a file: which there are, and which lines each one covers."""

from __future__ import annotations

import ast
import re

from preflight.check.selection import MARK

DIRECTIVES = ("ignore", "ignore-file", "off", "on")
_COMMENT = r"#\s*preflight:\s*(?P<word>[\w-]+)\s*(?P<rules>\[[^\]\n]*\]?)?\s*(?P<reason>[^#]*)"


class Directive:
    """One comment ``# preflight: WORD[RULES] REASON``.

    Attributes:
        word: ``ignore``, ``ignore-file``, ``off`` or ``on``; or what was written instead.
        rules: The names in the brackets; empty when there are none, which means all rules.
        bracketed: Whether there are brackets.
        reason: What is said behind them.
        line: The line of the text, from 1.
        start: Where the comment begins in the line, from 0.
        end: Where it ends.
        names_at: Where the text within the brackets begins.
        alone: Whether nothing but comments is on the line.
    """

    __slots__ = ("alone", "bracketed", "end", "line", "names_at", "reason", "rules", "start", "word")

    def __init__(self, match: re.Match[str], line: int, column: int, alone: bool) -> None:
        """Read one match of the pattern in a comment that begins at a column."""
        written = match["rules"] or ""
        self.word = match["word"]
        self.rules = tuple(name.strip() for name in written.strip("[]").split(",") if name.strip())
        self.bracketed = bool(written)
        self.reason = match["reason"].strip()
        self.line = line
        self.start = column + match.start()
        self.end = column + len(match.group().rstrip()) + match.start()
        self.names_at = column + match.start("rules") + 1 if written else self.start
        self.alone = alone


def directives(text: str) -> list[Directive]:
    """The suppression comments of a text; strings that look like one are not."""
    if MARK not in text:
        return []
    import io
    import tokenize

    found: list[Directive] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and MARK in token.string:
                line, column = token.start
                alone = not token.line[:column].strip()
                found += [Directive(match, line, column, alone) for match in re.finditer(_COMMENT, token.string)]
    except (tokenize.TokenError, IndentationError, SyntaxError):
        pass  # the parser took it; what was read up to here counts
    return found


class Statements:
    """The lines that belong together: of a statement all, of one with a body those of its head."""

    def __init__(self, tree: ast.Module) -> None:
        """Collect the statements that are longer than a line."""
        self._spans: list[tuple[int, int]] = []
        for node in ast.walk(tree):
            if isinstance(node, ast.stmt):
                first, last = _span(node)
                if last > first:
                    self._spans.append((first, last))

    def around(self, line: int) -> tuple[int, int]:
        """The first and the last line of the innermost statement (or head of one) that a line is in."""
        holding = [span for span in self._spans if span[0] <= line <= span[1]]
        return min(holding, key=lambda span: span[1] - span[0], default=(line, line))


def _span(node: ast.stmt) -> tuple[int, int]:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
    last = node.end_lineno or node.lineno
    body = getattr(node, "body", None) or getattr(node, "cases", None)
    if isinstance(body, list) and body:
        inner = body[0].pattern if isinstance(body[0], ast.match_case) else body[0]
        start = min([inner.lineno, *(decorator.lineno for decorator in getattr(inner, "decorator_list", []))])
        last = max(first, start - 1)
    return first, last
