"""Reads how a process ended out of what zsh, the shell of macOS, says of its jobs.

It has words of its own for some signals and writes all of them small: ``zsh: bus error  python train.py`` of a program that
it waited for, ``[1]  + 4242 killed     python train.py`` of one in the background. Beside a training there are others in the
background, which are stopped when it is done (a viewer, a tunnel): of these only those that may train are read.
"""

from __future__ import annotations

import re

_WORDS = {
    "hangup": 1, "quit": 3, "illegal hardware instruction": 4, "trace trap": 5, "abort": 6, "IOT instruction": 6, "bus error": 7,
    "floating point exception": 8, "killed": 9, "segmentation fault": 11, "invalid system call": 31, "terminated": 15,
}  # fmt: skip
LITERALS = tuple(f" {word} ".encode() for word in _WORDS)
"""A line that tells of such an end holds one of these."""
_TRAINS = (
    r"(?:[A-Za-z_]\w{0,60}=\S{0,200} {1,4}){0,8}(?:nohup |env |time )?(?:\S{0,200}/)?"
    r"(?:python|torchrun|accelerate|deepspeed|mpirun|mpiexec|srun|horovodrun|(?:ba|z)?sh |[\w.-]{1,80}\.(?:py|sh)\b)"
)
_TOLD = re.compile(
    rf"^(?P<waits>zsh: )?(?:\[\d{{1,4}}\] {{0,2}}[+-]? {{1,8}}(?P<pid>\d{{1,10}}) )?"
    rf"(?P<word>{'|'.join(sorted(_WORDS, key=len, reverse=True))})(?: \(core dumped\))? {{2,12}}(?:(?P<trains>{_TRAINS})|\S)"
)


def told(text: str) -> tuple[int | None, int] | None:
    """Return the process and the signal that it died of; None where zsh tells of none."""
    found = _TOLD.match(text)
    if found is None or not (found["waits"] or (found["pid"] and found["trains"])):
        return None
    return int(found["pid"]) if found["pid"] else None, _WORDS[found["word"]]
