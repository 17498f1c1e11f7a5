"""Apply fixes: text edits that keep everything else, comments and formatting included."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from preflight.vocabulary.finding import Edit


def apply_edits(edits: Iterable[Edit], texts: dict[str, str] | None = None) -> dict[str, str]:
    """Apply edits to files.

    Args:
        edits: Edits of one or more files. Of two that overlap, the first given is applied; equal ones once.
        texts: Contents by path, for what is not to be read from disk.

    Returns:
        The new text of each file that changes.
    """
    by_path: dict[str, list[Edit]] = {}
    for edit in edits:
        known = by_path.setdefault(edit.path, [])
        if edit not in known:
            known.append(edit)
    result: dict[str, str] = {}
    for path, wanted in by_path.items():
        text = texts[path] if texts is not None and path in texts else Path(path).read_bytes().decode("utf-8")
        result[path] = apply_to_text(text, wanted)
    return result


def apply_to_text(text: str, edits: list[Edit]) -> str:
    """Apply edits to one text; later places first, so that earlier ones stay where they are."""
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)

    def offset(line: int, column: int) -> int:
        end = starts[line] - 1 if line < len(starts) else len(text)
        at = starts[line - 1] + column - 1
        carriage = end > 0 and end <= len(text) and text[end - 1 : end] == "\r"
        return min(at, end - 1 if carriage else end)

    spans = [(offset(e.line, e.column), offset(e.end_line, e.end_column), i, e.text) for i, e in enumerate(edits)]
    kept: list[tuple[int, int, int, str]] = []
    for span in spans:
        if not any(span[0] < other[1] and other[0] < span[1] for other in kept):
            kept.append(span)
    for start, end, _, new in sorted(kept, key=lambda s: (s[0], s[1], s[2]), reverse=True):
        if "\r\n" in text:
            new = new.replace("\n", "\r\n")
        text = text[:start] + new + text[end:]
    return text
