"""Reads how a process ended out of what zsh, the shell of macOS, says of its jobs.

It has words of its own for some signals and writes all of them small: ``zsh: bus error  python train.py`` of a program that
it waited for, ``[1]  + 4242 killed     python train.py`` of one in the background.
"""

from __future__ import annotations

import re

_WORDS = {
    "hangup": 1, "quit": 3, "illegal hardware instruction": 4, "trace trap": 5, "abort": 6, "IOT instruction": 6, "bus error": 7,
    "floating point exception": 8, "killed": 9, "segmentation fault": 11, "invalid system call": 31, "terminated": 15,
}  # fmt: skip
LITERALS = tuple(f" {word} ".encode() for word in _WORDS)
"""A line that tells of such an end holds one of these."""
_TOLD = re.compile(
    r"^(?:zsh: |\[\d{1,4}\] {0,2}[+-]? {1,8}(?P<pid>\d{1,10}) )"
    rf"(?P<word>{'|'.join(sorted(_WORDS, key=len, reverse=True))})(?: \(core dumped\))? {{2,12}}\S"
)


def told(text: str) -> tuple[int | None, int] | None:
    """Return the process and the signal that it died of; None where zsh tells of none."""
    found = _TOLD.match(text)
    return (int(found["pid"]) if found["pid"] else None, _WORDS[found["word"]]) if found is not None else None
