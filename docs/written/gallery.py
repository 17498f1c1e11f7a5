"""The front page of the gallery: every piece with its first sentence, by what found it."""

from __future__ import annotations

import re
from pathlib import Path

GALLERY = Path(__file__).resolve().parents[1] / "gallery"
FOUND_BY = {
    "check": "In a script, before it runs",
    "check --dry-run": "In a script, on a virtual GPU",
    "plan": "In a plan",
    "monitor": "In a run that trains",
    "investigate": "In what a run left behind",
}


def pages() -> dict[str, str]:
    """Return the page by its path from the reference."""
    pieces: dict[str, list[str]] = {word: [] for word in FOUND_BY}
    for path in sorted(GALLERY.glob("*.md")):
        if path.name != "README.md":
            title, first, *_ = [line for line in path.read_text("utf-8").splitlines() if line]
            pieces[found_by(path)].append(f"- [{title.removeprefix('# ')}]({path.name}): {first}")
    parts = [
        "# Gallery\n\nWritten by `make docs` from the pieces beside it.\n"
        "What is found, as the tool says it, before and after it is mended.\n"
        "Every command here is run by a test, and what it prints is compared; so are the pictures, which are those of the\n"
        "page that the command writes with `-o PAGE.html`.\n"
        f"There are {sum(map(len, pieces.values()))}.\n"
    ]
    parts += [f"## {FOUND_BY[word]}\n\n" + "\n".join(lines) + "\n" for word, lines in pieces.items() if lines]
    return {"../gallery/README.md": "\n".join(parts)}


def found_by(path: Path) -> str:
    """Return the command that a piece is about: the first that is no ``quick`` look, ``explain`` or ``list``.

    Raises:
        LookupError: It shows none.
    """
    text = path.read_text("utf-8")
    if re.search(r"(?m)^\$ preflight check .*--dry-run", text):
        return "check --dry-run"
    for word in re.findall(r"(?m)^\$ preflight (\w+)", text):
        if word in FOUND_BY:
            return str(word)
    raise LookupError(f"{path.name} shows no command of {', '.join(FOUND_BY)}")
