"""Text that comes from a user's files, made harmless to show.

A script chooses its own names, messages and paths; whatever it puts there must not move the cursor, hide text
or end a line that another program reads.
"""

from __future__ import annotations


def clean(text: object) -> str:
    """Return one line in which every character that is not printable is written as an escape.

    Terminal escapes, line ends, bidirectional overrides, zero-width characters and lone surrogates count as such.
    """
    line = str(text)
    if line.isprintable():
        return line
    return "".join(char if char.isprintable() else _escape(char) for char in line)


def clean_lines(text: object) -> list[str]:
    """Return the lines of a text, each made harmless; tabs become four spaces, blank lines at the ends go."""
    lines = str(text).replace("\r\n", "\n").replace("\t", "    ").strip("\n").split("\n")
    return [clean(line.rstrip()) for line in lines]


def one_line(text: object) -> str:
    """Return a text as one harmless line; line ends become spaces."""
    return " ".join(part for part in (line.strip() for line in clean_lines(text)) if part)


def _escape(char: str) -> str:
    if char == "\t":
        return " "
    number = ord(char)
    if char in "\r\n":
        return "\\n" if char == "\n" else "\\r"
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def display_width(text: str) -> int:
    """Return how many terminal columns a printable text takes: wide East Asian characters take two, marks none."""
    if text.isascii():
        return len(text)
    import unicodedata

    width = 0
    for char in text:
        if unicodedata.combining(char):
            continue
        width += 2 if unicodedata.east_asian_width(char) in "WF" else 1
    return width
