"""Reads the logs and dumps of a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Literal

from preflight.catalog.signature_files import load_signatures
from preflight.source.logs import naming
from preflight.source.logs.joining import join
from preflight.source.logs.one_file import Wanted, read_many
from preflight.source.logs.opening import STDIN, sources
from preflight.source.logs.rules import packed, rules_of
from preflight.vocabulary.log import Reading
from preflight.vocabulary.signature import Signature

Engine = Literal["local", "ray"]
MOST_STEPS = 1_000_000
FEWEST_STEPS = 400
"""Steps kept of a file, however many files there are."""


def read_logs(
    paths: Sequence[str | os.PathLike[str]],
    signatures: Sequence[Signature] | None = None,
    *,
    engine: Engine = "local",
    stdin: bytes | None = None,
) -> Reading:
    """Read files, folders, patterns, archives or standard input (``-``) to one reading.

    Args:
        paths: What to read.
        signatures: What to look for; None: those that are shipped.
        engine: ``local``: this machine's cores; ``ray``: a cluster.
        stdin: What standard input holds; None: it is read where ``-`` is among the paths.
    """
    if STDIN in [os.fspath(path) for path in paths] and stdin is None:
        stdin = sys.stdin.buffer.read()
    found, notes = sources(paths, stdin)
    work = wanted(found)
    kept = packed(load_signatures() if signatures is None else signatures)
    parts = [part for parts in read_many(work, rules_of(kept)) for part in parts]
    return join(parts, notes)


def wanted(found: Sequence[object]) -> list[Wanted]:
    """Return the work: each source with its number, whose it is, and its share of the steps that are kept."""
    from preflight.source.logs.opening import Source

    these = [source for source in found if isinstance(source, Source)]
    named = naming.label([source.name or source.path for source in these])
    total = sum(source.size for source in these) or 1
    return [
        Wanted(source, told, index, max(FEWEST_STEPS, MOST_STEPS * source.size // total))
        for index, (source, told) in enumerate(zip(these, named, strict=True))
    ]
