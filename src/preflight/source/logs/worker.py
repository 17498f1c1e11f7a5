"""The process that ``pool`` starts: reads what it is told on its standard input, and answers on its standard output."""

from __future__ import annotations

import os
import sys
from typing import BinaryIO

import msgspec

from preflight.source.logs.one_file import Wanted, read_one
from preflight.source.logs.rules import rules_of


def serve(source: BinaryIO, answers: BinaryIO) -> None:
    """Answer until the input ends: first the signatures, then heaps of sources."""
    rules = rules_of(_frame(source))
    while data := _frame(source):
        work = msgspec.msgpack.decode(data, type=list[Wanted])
        answer = msgspec.msgpack.encode([read_one(wanted, rules) for wanted in work])
        answers.write(len(answer).to_bytes(8, "big") + answer)
        answers.flush()


def _frame(source: BinaryIO) -> bytes:
    head = source.read(8)
    return source.read(int.from_bytes(head, "big")) if len(head) == 8 else b""


if __name__ == "__main__":
    # Whatever a library prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, answers)
