"""Reads the logs and dumps of a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Literal

from preflight.catalog.signature_files import load_signatures
from preflight.source.logs import naming
from preflight.source.logs.joining import join
from preflight.source.logs.one_file import Wanted
from preflight.source.logs.opening import STDIN, Source, sources
from preflight.source.logs.pool import read_all
from preflight.source.logs.ranges import parted, whole
from preflight.source.logs.reduced import Reduced
from preflight.source.logs.rules import packed, rules_of
from preflight.vocabulary.log import Reading
from preflight.vocabulary.signature import Signature

Engine = Literal["local", "ray"]
Tell = Callable[[int, int], None]
MOST_STEPS = 1_000_000
FEWEST_STEPS = 400
"""Steps kept of a file, however many files there are."""


def read_logs(
    paths: Sequence[str | os.PathLike[str]],
    signatures: Sequence[Signature] | None = None,
    *,
    engine: Engine = "local",
    stdin: bytes | None = None,
    tell: Tell | None = None,
) -> Reading:
    """Read files, folders, patterns, archives or standard input (``-``) to one reading.

    Args:
        paths: What to read.
        signatures: What to look for; None: those that are shipped.
        engine: ``local``: this machine's cores; ``ray``: a cluster.
        stdin: What standard input holds; None: it is read where ``-`` is among the paths.
        tell: Called with the heaps of files that were read and those there are, where there are several.
    """
    if STDIN in [os.fspath(path) for path in paths] and stdin is None:
        stdin = sys.stdin.buffer.read()
    found, notes = sources(paths, stdin)
    work = wanted(found)
    kept = packed(load_signatures() if signatures is None else signatures)
    return join(_reduced(work, kept, engine, tell), notes)


def _reduced(work: list[Wanted], kept: bytes, engine: Engine, tell: Tell | None) -> list[Reduced]:
    """Read the work, its large files in parts, and return what each file gave, in order."""
    pieces = parted(work)
    if engine == "ray":
        from preflight.source.logs.cluster import read_on_cluster

        found = read_on_cluster(pieces, kept, tell)
    else:
        found = read_all(pieces, rules_of(kept), kept, tell=tell)
    together: dict[int, list[Reduced]] = {}
    for piece, parts in zip(pieces, found, strict=True):
        if piece.begin:  # a part of the file that began with the piece before
            together[piece.index] += parts
        else:
            together[piece.index] = list(parts)
    split = {piece.index for piece in pieces if piece.begin}
    return [part for index, parts in together.items() for part in ([whole(parts)] if index in split else parts)]


def wanted(found: Sequence[Source]) -> list[Wanted]:
    """Return the work: each source with its number, whose it is, and its share of the steps that are kept."""
    named = naming.label([source.name or source.path for source in found])
    total = sum(source.size for source in found) or 1
    return [
        Wanted(source, told, index, max(FEWEST_STEPS, MOST_STEPS * source.size // total))
        for index, (source, told) in enumerate(zip(found, named, strict=True))
    ]
