"""Everything that a line is searched for, in one automaton: signatures, tracebacks, ends, steps, trouble, processes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

from preflight.source.logs import endings, steps
from preflight.source.logs.literals import Finder
from preflight.source.logs.matching import Matcher
from preflight.source.logs.tracebacks import HEADER
from preflight.vocabulary.signature import Signature

TRACEBACK, ENDING, STEP, TROUBLE, WORLD = 1, 2, 4, 8, 16
"""What a literal makes a line a candidate for, besides the signatures that have it."""

_TROUBLE = (
    b"ERROR", b"Error:", b"Error(", b" error:", b"Exception:", b"FATAL", b"CRITICAL", b"WARN", b"Fatal", b"fatal:", b"panic:",
    b"\nE0", b"\nE1", b"\nF0", b"\nF1", b": F external/", b": F tensorflow/", b": F xla/", b"amdgpu ", b"EDAC MC", b"\ntar: ", b"\ngzip: ", b"\nunzip: ", b"Failed to", b"failed to", b"FAILED", b"[E ", b"NCCL WARN", b"\nerror: ", b"KeyboardInterrupt", b"MemoryError",
    b"BadZipFile", b"NVRM: ", b"HDF5-DIAG", b"ProcessGroup", b"ninja: build", b"LLVM ERROR", b"error   :", b"\nError ", b") Error ", b"\x1b[0m Error ", b"Failed building", b"Exception raised from", b"  what():",
    b"Check failed: ", b"\nException in ", b"ipeline failed: ", b"raining failed: ", b"xperiment failed: ", b"ob failed: ", b"un failed: ",
)  # fmt: skip
_WORLD = (
    b"world_size", b"world size", b"WORLD_SIZE", b"nranks ", b"nRanks ", b"num_processes=", b"Total GPUs", b"n_gpus",
    b"world-size", b"Starting worker group", b"role_ranks=", b"global_ranks=", b"total GPUs", b"MEMBER: ", b" clients joined",
    b"ank 0/", b"ank 0 of ", b"ank: 0/", b"ank=0/",
)  # fmt: skip


class Rules:
    """The automaton and, for each of its literals, what it is of.

    Attributes:
        matcher: The signatures.
        words: The literals.
        finder: The automaton.
        kinds: By literal: the bits ``TRACEBACK`` ... and 0 for those of signatures alone.
        asked: By literal: the numbers of the signatures that have it.
        first: The literals that begin with the break before their line, without it: at the beginning of a file there is none.
        header: The literal of a traceback's first line; -1 where that line may hold others, too.
        weighing: The signatures that may take a line and refuse another one that differs from it in numbers alone.
        shapes: What is known of lines by their shape, by the labels that those of a file bear; files read later use it, too.
        repeated: Those that came again and again, by the same labels.
    """

    def __init__(self, signatures: Sequence[Signature], engine: str | None = None) -> None:
        """Build the automaton."""
        self.matcher = Matcher(signatures)
        asked = dict(zip(self.matcher.literals, self.matcher.of_literal, strict=True))
        kinds: dict[bytes, int] = dict.fromkeys(asked, 0)
        for bit, words in (
            (TRACEBACK, (HEADER.encode(),)),
            (ENDING, endings.LITERALS),
            (STEP, steps.LITERALS),
            (TROUBLE, _TROUBLE),
            (WORLD, _WORLD),
        ):
            for word in words:
                kinds[word] = kinds.get(word, 0) | bit
        self.finder = Finder(tuple(kinds), engine)
        self.words = tuple(kinds)
        self.kinds = tuple(kinds.values())
        self.asked = tuple(asked.get(word, ()) for word in kinds)
        self.first = tuple((number, word[1:]) for number, word in enumerate(self.words) if word[:1] == b"\n")
        line = HEADER.encode() + b":"
        self.header = self.words.index(HEADER.encode()) if sum(word in line for word in self.words) == 1 else -1
        self.shapes: dict[str, dict[bytes, Any]] = {}
        self.repeated: dict[str, Any] = {}
        self.weighing = frozenset(number for number, weighs in enumerate(self.matcher.weighs_numbers) if weighs)


@lru_cache(maxsize=4)
def rules_of(packed: bytes, engine: str | None = None) -> Rules:
    """Return the rules of signatures that were packed by ``packed``; a process builds them once."""
    return Rules(msgspec.msgpack.decode(packed, type=tuple[Signature, ...]), engine)


def packed(signatures: Sequence[Signature]) -> bytes:
    """Return the signatures as they travel to another process."""
    return msgspec.msgpack.encode(tuple(signatures))
