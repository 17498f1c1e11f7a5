"""A snapshot of what one rank runs on: taken in bounded time, kept as JSON, one file per rank."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import msgspec

from preflight.errors import InputError
from preflight.investigate.doctor.wanted import Wanted
from preflight.listing import modules_beside
from preflight.vocabulary.finding import Scalar

SCHEMA = "preflight.snapshot/1"


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What one rank saw.

    Attributes:
        schema: Of this form.
        rank: The rank; None outside of a launcher.
        node: Its host.
        values: What was found, by dotted name.
    """

    schema: str = SCHEMA
    rank: int | None = None
    node: str | None = None
    values: dict[str, Scalar] = {}


def collectors() -> tuple[str, ...]:
    """Return the names of what is looked at: the modules of ``collect``."""
    return modules_beside(__file__, "collect")


def take(wanted: Wanted) -> Snapshot:
    """Look at everything; what fails is noted as ``NAME.problem`` and does not keep the rest from being seen."""
    import platform

    values: dict[str, Scalar] = {}
    for name in collectors():
        try:
            values.update(import_module(f"preflight.investigate.doctor.collect.{name}").collect(wanted))
        except Exception as error:
            values[f"{name.rstrip('_')}.problem"] = f"{type(error).__name__}: {error}"
    return Snapshot(rank=own_rank(), node=platform.node() or None, values=dict(sorted(values.items())))


def own_rank() -> int | None:
    """Return the rank that a launcher gave to this process."""
    for name in ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return None


def encode(snapshot: Snapshot) -> bytes:
    """Return it as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(snapshot), indent=1) + b"\n"


def read(paths: list[str]) -> dict[str, Snapshot]:
    """Read snapshots: files, or folders of them; by rank, or by name where a file tells no rank.

    Raises:
        InputError: A file is no snapshot, there is none, or two are of the same rank.
    """
    found: dict[str, Snapshot] = {}
    origin: dict[str, Path] = {}
    for path in _files(paths):
        try:
            snapshot = msgspec.json.decode(path.read_bytes(), type=Snapshot)
        except (OSError, msgspec.DecodeError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise InputError(
                f"{path}: not a snapshot: {why}", "preflight investigate doctor --save DIR makes one"
            ) from None
        if snapshot.schema != SCHEMA:
            raise InputError(f"{path}: of schema {snapshot.schema!r}", f"this version reads {SCHEMA!r}")
        key = str(snapshot.rank) if snapshot.rank is not None else path.stem
        if key in found:
            raise InputError(
                f"{path}: rank {key} has a snapshot already, {origin[key]}", "of two runs? compare one run at a time"
            )
        found[key], origin[key] = snapshot, path
    if not found:
        raise InputError(
            f"no snapshot in {', '.join(paths)}", "preflight investigate doctor --save DIR makes one per rank"
        )
    return dict(sorted(found.items(), key=lambda item: (not item[0].isdigit(), len(item[0]), item[0])))


def _files(paths: list[str]) -> Iterator[Path]:
    for given in paths:
        path = Path(given)
        if path.is_dir():
            yield from sorted(path.glob("*.json"))
        else:
            yield path
