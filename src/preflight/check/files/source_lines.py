"""The source lines that findings point at, read once per file and only when asked for."""

from __future__ import annotations

from preflight.errors import InputError
from preflight.vocabulary.finding import Location


class SourceLines:
    """Texts of files by the path that findings show.

    Attributes:
        texts: What was read so far; standard input is put here by the caller.
    """

    def __init__(self, texts: dict[str, str] | None = None) -> None:
        """Start with what is not to be read from disk."""
        self.texts: dict[str, str] = dict(texts or {})
        self._cells: dict[str, tuple[int, ...]] = {}

    def text(self, path: str) -> str | None:
        """The text of a file with plain line ends (of a notebook: its code), or None when it cannot be read."""
        if path not in self.texts:
            try:
                self.texts[path] = self._read(path)
            except (InputError, OSError):
                return None
        return self.texts[path]

    def line(self, location: Location) -> str | None:
        """The line that a place is on, or None when it is not at hand."""
        if location.path is None or location.line is None:
            return None
        text = self.text(location.path)
        if text is None:
            return None
        number = location.line
        if location.cell is not None:
            firsts = self._cells.get(location.path, ())
            if not 0 < location.cell <= len(firsts):
                return None
            number += firsts[location.cell - 1] - 1
        lines = text.split("\n")
        return lines[number - 1] if 0 < number <= len(lines) else None

    def _read(self, path: str) -> str:
        if path.endswith(".ipynb"):
            from preflight.source.notebook import code_of

            with open(path, "rb") as file:
                text, self._cells[path] = code_of(file.read(), path)
            return text
        from preflight.check.files.text_file import read_text_file

        return read_text_file(path).text.replace("\r\n", "\n").replace("\r", "\n")
