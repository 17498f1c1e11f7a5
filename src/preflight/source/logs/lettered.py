"""Lines of TensorFlow's and XLA's own logger, which tells its level by a letter and then the file of the source that speaks."""

from __future__ import annotations


def lettered(levels: str) -> str:
    """Return the expression of such a line at one of these levels: I of information, W of a warning, E of an error, F of an end.

    The time stands before the letter, or between it and the file.
    """
    return rf"(?:^|: )[{levels}](?:\d{{4}} \S+ +\d+)? [\w./-]+\.(?:cc|cpp|h|cu)(?:\.cc)?:\d+\]"
