"""Read a script: text, notebook or standard input, parsed once. Nothing is imported, nothing is run."""

from __future__ import annotations

import ast
import stat
import warnings
from pathlib import Path
from typing import TypeVar

from preflight.errors import InputError
from preflight.vocabulary.finding import Location

MAX_BYTES = 4_000_000

Node = TypeVar("Node", bound=ast.AST)


class Script:
    """A parsed file.

    Attributes:
        path: The path as shown to the person.
        file: The real file, or None for standard input.
        text: The source text (of a notebook: its code cells joined).
        tree: The syntax tree.
        cells: For notebooks: the first line of each code cell, to translate places; else empty.
        drawing: Whether it is no script, but draws networks of a library.
    """

    __slots__ = ("_lines", "_nodes", "cells", "drawing", "file", "path", "text", "tree")

    def __init__(self, path: str, text: str, tree: ast.Module, file: Path | None, cells: tuple[int, ...] = ()) -> None:
        self.path = path
        self.text = text
        self.tree = tree
        self.file = file
        self.cells = cells
        self.drawing = False
        self._lines: list[str] | None = None
        self._nodes: dict[type[ast.AST], list[ast.AST]] | None = None

    @property
    def lines(self) -> list[str]:
        """The lines of the text, without their ends."""
        if self._lines is None:
            # As Python counts them: str.splitlines would also split at \x0b, \x1c or \u2028.
            self._lines = self.text.removesuffix("\n").split("\n")
        return self._lines

    def nodes(self, kind: type[Node]) -> list[Node]:
        """All nodes of one type, outer ones first; the tree is walked once for all types."""
        if self._nodes is None:
            from preflight.source.nodes import by_kind

            self._nodes = by_kind(self.tree)
        return self._nodes.get(kind, [])  # type: ignore[return-value]

    def column(self, line: int, offset: int) -> int:
        """Translate a byte offset of ``ast`` into a column that counts characters from 1."""
        if 0 < line <= len(self.lines):
            text = self.lines[line - 1]
            if not text.isascii():
                return len(text.encode()[:offset].decode(errors="ignore")) + 1
        return offset + 1

    def location(self, node: ast.AST) -> Location:
        """Return the place of a node. A notebook's place names the cell and the line within it."""
        line = getattr(node, "lineno", 1)
        end = getattr(node, "end_lineno", None) or line
        column = self.column(line, getattr(node, "col_offset", 0))
        end_column = self.column(end, getattr(node, "end_col_offset", None) or 0)
        if self.cells:
            cell = sum(1 for first in self.cells if first <= line)
            first = self.cells[cell - 1] if cell else 1
            line, end = line - first + 1, end - first + 1
            return Location(self.path, line, column, end, end_column, cell=cell)
        return Location(self.path, line, column, end, end_column)

    def segment(self, node: ast.AST) -> str:
        """Return the source text of a node, on one line."""
        line, end = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
        if line is None or end is None or not 0 < line <= end <= len(self.lines):
            return ""
        start, stop = self.column(line, node.col_offset) - 1, self.column(end, node.end_col_offset or 0) - 1  # type: ignore[attr-defined]
        lines = self.lines[line - 1 : end]
        lines[-1] = lines[-1][:stop]
        lines[0] = lines[0][start:]
        return " ".join(" ".join(lines).split())


def read_bytes(file: Path, shown: str) -> bytes:
    """Read a file, refusing what cannot be a script.

    Raises:
        InputError: The file is missing, a folder, too large, or cannot be read.
    """
    try:
        if file.is_dir():
            raise InputError(f"{shown}: is a folder", "name a file, or let the folder be searched for scripts")
        state = file.stat()
        if not stat.S_ISREG(state.st_mode):
            raise InputError(f"{shown}: is not a regular file", "what comes through a pipe: preflight check - < ...")
        size = state.st_size
        if size > MAX_BYTES:
            raise InputError(
                f"{shown}: {size / 1e6:.0f} MB is too large for a script (limit {MAX_BYTES / 1e6:.0f} MB)",
                "name the training script, not its data",
            )
        return file.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{shown}: no such file", _similar(file)) from None
    except PermissionError:
        raise InputError(f"{shown}: permission denied") from None
    except OSError as error:
        raise InputError(f"{shown}: cannot be read: {error.strerror or error}") from None


def _similar(file: Path) -> str | None:
    from preflight.errors import nearest

    try:
        names = [p.name for p in file.parent.iterdir() if p.suffix in {".py", ".ipynb"}]
    except OSError:
        return None
    near = nearest(file.name, names)
    return f"did you mean {file.parent / near}?" if near else None


def parse(data: bytes, shown: str, file: Path | None = None) -> Script:
    """Parse the bytes of a script or notebook.

    Raises:
        InputError: The bytes are not Python 3, with the position of the error.
    """
    if len(data) > MAX_BYTES:
        raise InputError(
            f"{shown}: {len(data) / 1e6:.0f} MB is too large for a script (limit {MAX_BYTES / 1e6:.0f} MB)"
        )
    if b"\0" in data[:8192]:
        raise InputError(f"{shown}: is a binary file, not a Python script")
    cells: tuple[int, ...] = ()
    if shown.endswith(".ipynb"):
        from preflight.source.notebook import code_of

        text, cells = code_of(data, shown)
    else:
        text = _decode(data, shown)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escape sequences are the script's affair
            tree = ast.parse(text)
    except SyntaxError as error:
        raise _syntax_error(error, text, shown) from None
    except (RecursionError, MemoryError):
        raise InputError(f"{shown}: expressions are nested too deeply to be read") from None
    except ValueError as error:
        raise InputError(f"{shown}: is not Python source: {error}") from None
    return Script(shown, text, tree, file, cells)


def _decode(data: bytes, shown: str) -> str:
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    try:
        return data.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n").replace("\f", " ")
    except UnicodeDecodeError:
        import io
        import tokenize

        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
            return data.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")
        except (SyntaxError, UnicodeDecodeError, LookupError):
            raise InputError(
                f"{shown}: is not text in the encoding it declares (UTF-8 unless it says otherwise)"
            ) from None


class ScriptSyntaxError(InputError):
    """A script that does not parse; knows where."""

    def __init__(self, message: str, line: int, column: int, hint: str | None = None) -> None:
        """Keep the position beside the message."""
        super().__init__(message, hint)
        self.line = line
        self.column = column


def _syntax_error(error: SyntaxError, text: str, shown: str) -> ScriptSyntaxError:
    import re

    line, column = error.lineno or 1, error.offset or 1
    hint = None
    if re.search(r"^\s*print\s+[^\s(=]", text, re.MULTILINE) or re.search(
        r"^\s*except\s+\w+\s*,\s*\w+\s*:", text, re.MULTILINE
    ):
        hint = "this looks like Python 2, which is not supported; convert it with 2to3 first"
    lines = text.splitlines()
    shown_line = lines[line - 1].strip()[:100] if 0 < line <= len(lines) else ""
    message = f"{shown}:{line}:{column}: syntax error: {error.msg}" + (f": {shown_line}" if shown_line else "")
    return ScriptSyntaxError(message, line, column, hint)


def read_script(file: Path, shown: str | None = None) -> Script:
    """Read and parse a file.

    Raises:
        InputError: It cannot be read or is not Python 3.
    """
    shown = shown or str(file)
    return parse(read_bytes(file, shown), shown, file)
