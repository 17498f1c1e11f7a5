"""Truths about numbers that nobody has: what the code asserts of them is taken to hold, as it does where it runs."""

from __future__ import annotations

import ast
import os
import sys
from functools import lru_cache
from types import FrameType

import torch

_PASSED = (
    os.path.join(os.path.dirname(os.path.abspath(torch.__file__)), ""),
    os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), ""),
    "<",
)


def asserted() -> bool | None:
    """Return the truth that the statement under way asserts, or None where it asserts none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PASSED):
        frame = frame.f_back
    return None if frame is None else _lines(frame.f_code.co_filename).get(frame.f_lineno)


@lru_cache(maxsize=512)
def _lines(filename: str) -> dict[int, bool]:
    """Return the lines of a file's assertions, and whether they assert that something holds or that it does not."""
    try:
        with open(filename, "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return {}
    found: dict[int, bool] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            holds = not (isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not))
            found.update(dict.fromkeys(range(node.lineno, (node.test.end_lineno or node.lineno) + 1), holds))
    return found
