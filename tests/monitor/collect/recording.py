"""Records code of a test in this process, into lists."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from preflight.monitor.collect.columns import TABLES
from preflight.monitor.collect.session import Session
from preflight.monitor.collect.settings import Settings
from preflight.monitor.judging.assemble import Assembler
from preflight.monitor.window import Window


class Kept:
    """A sink that keeps rows."""

    dropped = spent_ns = 0
    copies = False

    def __init__(self) -> None:
        self.rows: dict[str, list[tuple[Any, ...]]] = {}
        self.spent: Callable[[], int] = lambda: 0  # nanoseconds of the recorder's own work so far

    def put(self, kind: str, row: tuple[Any, ...]) -> None:
        assert len(row) == len(TABLES[kind]), (kind, row)
        self.rows.setdefault(kind, []).append(row)

    def put_all(self, kind: str, rows: Sequence[tuple[Any, ...]]) -> None:
        for row in rows:
            self.put(kind, row)

    def close(self, end: tuple[Any, ...] | None = None) -> bool:
        if end is not None:
            self.put("end", end)
        return True

    def table(self, kind: str) -> list[dict[str, Any]]:
        return [dict(zip(TABLES[kind], row, strict=True)) for row in self.rows.get(kind, [])]

    def calls(self, name: str | None = None) -> list[dict[str, Any]]:
        rows = sorted(self.table("call"), key=lambda row: row["q"])
        return [row for row in rows if name is None or row["name"] == name]

    def windows(self) -> list[Window]:
        tables = {
            kind: {name: [row[at] for row in rows] for at, name in enumerate(TABLES[kind])}
            for kind, rows in self.rows.items()
        }
        assembler = Assembler()
        return [*assembler.feed(tables), *assembler.finish()]


@contextlib.contextmanager
def recorded(**settings: Any) -> Iterator[Kept]:
    """Record what happens inside; afterwards the rows are there and every hook is gone."""
    kept = Kept()
    session = Session(Settings("", **{"budget": 0, **settings}))

    def opened(recorder: Any) -> Kept:
        kept.put("begin", session._first_row())
        return kept

    session.recorder._open_sink = opened
    kept.spent = lambda: session.recorder.spent
    session.start()
    try:
        yield kept
    finally:
        session.stop()
