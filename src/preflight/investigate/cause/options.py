"""Whose options were wrong: those of a program of one's own, or those of a launcher, a scheduler or a library's command."""

from __future__ import annotations

import re

_PROGRAM = re.compile(r"(?P<program>[\w.<>\[\]/-]{1,100}(?: [\w<>\[\]-]{1,60}){0,8}): error: ")
"""The name under which argparse refuses, and the commands behind it."""
_LAUNCHES = ("launch.py", "run.py")
"""torch's launchers, and programs of one's own that are called so."""
_OF_A_LAUNCHER = re.compile(
    r"\btraining_script|--(?:nnodes|nproc[_-]per[_-]node|node[_-]rank|master[_-](?:addr|port)|rdzv[_-]\w+|max[_-]restarts|standalone|use[_-]env"
    r"|start[_-]method|monitor[_-]interval|num_(?:nodes|gpus)|hostfile)\b"
)


def of_a_launcher(text: str) -> bool:
    """Return whether a line of argparse tells of the options of a program that is not one's own.

    A script bears the end of Python's files; what is installed as a command, or run as a module, does not. An option that a
    launcher hands to a script, and the script does not declare, is the script's.
    """
    found = _PROGRAM.search(text)
    if found is None:
        return False
    # Behind a script's name stand commands of its own: `train.py fit`.
    words = [word.rpartition("/")[2] for word in found["program"].split()]
    name = next((word for word in words if word.endswith(".py")), words[-1])
    if name in _LAUNCHES:
        return _OF_A_LAUNCHER.search(text[found.end() :]) is not None
    return name == "__main__.py" or not name.endswith(".py")
