"""Apply fixes: text edits that keep everything else, comments, line ends and encoding included."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

from preflight.check.files.text_file import TextFile, read_text_file, write_whole
from preflight.errors import PreflightError
from preflight.vocabulary.finding import Edit, Finding

Span = tuple[int, int, str]


class FileChange:
    """A file with its text before and after the fixes."""

    __slots__ = ("after", "file")

    def __init__(self, file: TextFile, after: str) -> None:
        """Keep both."""
        self.file = file
        self.after = after


class Fixing:
    """What fixes do to the files that findings point at. Nothing is written before ``write``.

    A fix is applied as a whole or not at all; one that overlaps an earlier one, leaves the repository, or would make
    a file that does not parse is left out.

    Attributes:
        changes: The files that change, by path.
        applied: The findings whose fix is applied.
        skipped: The findings whose fix is not, each with the reason.
    """

    def __init__(
        self, findings: Iterable[Finding], *, unsafe: bool, root: str | None, texts: dict[str, TextFile] | None = None
    ) -> None:
        """Work out the changes.

        Args:
            findings: Findings, the most important first.
            unsafe: Whether fixes that may change what is computed are applied as well.
            root: The repository; files outside it are not touched. None: only the given texts are.
            texts: Files that are not read from disk (standard input).
        """
        self.changes: dict[str, FileChange] = {}
        self.applied: list[Finding] = []
        self.skipped: list[tuple[Finding, str]] = []
        self._root = os.path.realpath(root) if root is not None else None
        self._files: dict[str, TextFile] = dict(texts or {})
        self._spans: dict[str, list[Span]] = {}
        for finding in findings:
            if finding.fix is None or not finding.fix.edits or not (finding.fix.safe or unsafe):
                continue
            reason = self._add(finding.fix.edits)
            if reason is None:
                self.applied.append(finding)
            else:
                self.skipped.append((finding, reason))

    def write(self) -> None:
        """Write the changed files, each as a whole.

        Raises:
            PreflightError: A file cannot be written; the others are.
        """
        for path, change in sorted(self.changes.items()):
            write_whole(path, change.file.encoded(change.after))

    def diff(self) -> str:
        """The changes as a unified diff, as ``git apply`` takes it."""
        import difflib

        parts: list[str] = []
        for path, change in sorted(self.changes.items()):
            shown = path.replace(os.sep, "/")
            before, after = ("", "") if shown.startswith(("/", "<")) or shown[1:2] == ":" else ("a/", "b/")
            old, new = _lines(change.file.text), _lines(change.after)
            parts += [
                line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
                for line in difflib.unified_diff(old, new, before + shown, after + shown)
            ]
        return "".join(parts)

    def _add(self, edits: Sequence[Edit]) -> str | None:
        """Take in the edits of one fix; return why that is not possible, or None."""
        by_path: dict[str, list[Edit]] = {}
        for edit in edits:
            by_path.setdefault(edit.path, []).append(edit)
        trial: dict[str, tuple[list[Span], str]] = {}
        for path, wanted in by_path.items():
            try:
                file = self._file(path)
            except PreflightError as error:
                return str(error)
            taken = self._spans.get(path, [])
            new = [span for span in dict.fromkeys(_spans(file.text, wanted)) if span not in taken]
            if any(_overlap(span, other) for span in new for other in taken):
                return "it overlaps another fix; run again to apply it"
            spans = [*taken, *new]
            after = _replaced(file.text, spans)
            if not _still_parses(file.text, after):
                return "the file would not parse any more"
            trial[path] = (spans, after)
        for path, (spans, after) in trial.items():
            self._spans[path] = spans
            if after != self._files[path].text:
                self.changes[path] = FileChange(self._files[path], after)
        return None

    def _file(self, path: str) -> TextFile:
        if path not in self._files:
            if self._root is None or not _inside(path, self._root):
                raise PreflightError(f"{path} lies outside the repository")
            if path.endswith(".ipynb"):
                raise PreflightError("notebooks are not edited")
            self._files[path] = read_text_file(path)
        return self._files[path]


def _inside(path: str, root: str) -> bool:
    try:
        return os.path.commonpath((os.path.realpath(path), root)) == root
    except ValueError:  # another drive
        return False


def _starts(text: str) -> list[int]:
    """Where each line begins; line ends as Python's parser sees them."""
    return [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", text))]


def _lines(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _spans(text: str, edits: Sequence[Edit]) -> list[Span]:
    starts = _starts(text)
    newline = TextFile("", text).newline

    def offset(line: int, column: int) -> int:
        if line > len(starts):
            return len(text)
        end = starts[line] if line < len(starts) else len(text)
        while end > starts[line - 1] and text[end - 1] in "\r\n":
            end -= 1
        return min(starts[line - 1] + column - 1, end)

    return [(offset(e.line, e.column), offset(e.end_line, e.end_column), e.text.replace("\n", newline)) for e in edits]


def _overlap(span: Span, other: Span) -> bool:
    return span[0] < other[1] and other[0] < span[1]


def _replaced(text: str, spans: Sequence[Span]) -> str:
    """Put in the spans, later places first; what is inserted at one place keeps the given order."""
    ordered = sorted(enumerate(spans), key=lambda item: (item[1][0], item[1][1], item[0]), reverse=True)
    for _, (start, end, new) in ordered:
        text = text[:start] + new + text[end:]
    return text


def _still_parses(before: str, after: str) -> bool:
    """Whether a text is Python; repeated keywords and the like count where the text was free of them before."""
    return _compiles(after) or (not _compiles(before) and _parses(after))


def _compiles(text: str) -> bool:
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "<fixed>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _parses(text: str) -> bool:
    import ast
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
