"""Writes that can be undone: the alternatives of a branch are followed one after the other, then joined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from preflight.source.trace import ITEMS
from preflight.source.values import Known, Seq, Unknown, Value, join

_ABSENT: Any = object()


class Undoing:
    """Variables, attributes and items, written with a log while an alternative is followed."""

    def __init__(self) -> None:
        """Begin without a log."""
        self.journal: list[tuple[Any, Any, Any]] | None = None
        # Attributes of what was made since the journal began: whoever returns such a thing returns it with them.
        self.fresh: dict[int, Any] = {}

    def write(self, table: dict[Any, Value], key: Any, value: Value) -> None:
        """Set an entry of a table (variables, attributes, entries), so that it can be undone."""
        if self.journal is not None:
            if id(table) not in self.fresh:
                self.journal.append((table, key, table.get(key, _ABSENT)))
            elif key == ITEMS:
                self.fresh[id(value)] = value
        table[key] = value

    def touch(self, seq: Seq) -> None:
        """Remember the items of a list before they are changed."""
        if self.journal is not None and id(seq) not in self.fresh:
            self.journal.append((seq, None, (list(seq.items), seq.open)))

    def attempt(self, body: Callable[[], str | None]) -> tuple[str | None, dict[tuple[int, Any], tuple[Any, Any, Any]]]:
        """Follow ``body``, undo its writes, and return its signal and what it had written.

        Returns:
            The signal, and by (id of table, key): the table, the key, the value at the end of the body.
        """
        outer, self.journal = self.journal, []
        made, self.fresh = self.fresh, {}
        try:
            signal = body()
        finally:
            log, self.journal = self.journal, outer
            made.update(self.fresh)
            self.fresh = made
        touched = {id(table) for table, _, _ in log if isinstance(table, Seq)}
        finals: dict[tuple[int, Any], tuple[Any, Any, Any]] = {}
        for table, key, _old in log:
            mark = (id(table), key)
            if mark not in finals:
                current = (list(table.items), table.open) if isinstance(table, Seq) else table.get(key, _ABSENT)
                finals[mark] = (table, key, current)
        for table, key, old in reversed(log):
            if isinstance(table, Seq):
                table.items[:], table.open = old
            elif old is _ABSENT:
                table.pop(key, None)
            else:
                table[key] = old
        if touched:
            for held in self.fresh.values():
                for value in held.values() if isinstance(held, dict) else ():
                    if id(value) in touched:
                        value.open = True  # its items are undone, the thing that holds it is not
        return signal, finals

    def merge(
        self,
        first: dict[tuple[int, Any], tuple[Any, Any, Any]] | None,
        second: dict[tuple[int, Any], tuple[Any, Any, Any]] | None,
        preferred: int | None = None,
        test: Value | None = None,
    ) -> None:
        """Write what two alternatives left behind; None stands for one that ended elsewhere."""
        for mark in list(first or ()) + [m for m in (second or ()) if m not in (first or ())]:
            table, key, _ = (first or {}).get(mark) or (second or {})[mark]
            if isinstance(table, Seq):
                self._merge_seq(table, mark, first, second, preferred)
                continue
            old = table.get(key, _ABSENT)
            a = first[mark][2] if first is not None and mark in first else (old if first is not None else _ABSENT)
            b = second[mark][2] if second is not None and mark in second else (old if second is not None else _ABSENT)
            if first is None or second is None:
                value = b if first is None else a
            elif a is _ABSENT or b is _ABSENT:
                value = b if a is _ABSENT else a
                if preferred is not None and (a, b)[preferred] is _ABSENT and value is not _ABSENT:
                    # Bound only where the defaults do not lead: for the defaults it is not there.
                    value = join(Known(None, None, "not bound"), value, 0, test)
            else:
                value = join(a, b, preferred, test)
            if value is _ABSENT:
                continue
            self.write(table, key, value)

    def _merge_seq(self, seq: Seq, mark: Any, first: Any, second: Any, preferred: int | None) -> None:
        now = (list(seq.items), seq.open)
        a = first[mark][2] if first is not None and mark in first else (now if first is not None else None)
        b = second[mark][2] if second is not None and mark in second else (now if second is not None else None)
        chosen = b if a is None else a if b is None else (a, b)[preferred] if preferred is not None else None
        self.touch(seq)
        if chosen is not None:
            seq.items[:], seq.open = chosen
            return
        assert a is not None
        assert b is not None
        if seq.kind == "set":
            held = [{id(item) for item in side[0]} for side in (a, b)]
            shared = [item for item in a[0] if id(item) in held[1]]
            more = [item for side, other in ((a, held[1]), (b, held[0])) for item in side[0] if id(item) not in other]
        else:
            longer, shorter = (a[0], b[0]) if len(a[0]) >= len(b[0]) else (b[0], a[0])
            shared, more = list(map(join, longer, shorter)), longer[len(shorter) :]
        # A plain item that only one side has may be missing; of a thing it matters more that it may be there.
        absent = Unknown("an item that may be missing", None, ())
        seq.items[:] = [*shared, *(join(absent, item) if isinstance(item, Known) else item for item in more)]
        seq.open = a[1] or b[1] or bool(more)
