"""Values that arrive later: asked for without waiting, waited for only when told."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from preflight.monitor.collect import backward, pending, recorder
from preflight.monitor.collect.pending import Pending
from preflight.monitor.collect.settings import Settings


class Host:
    """Memory that an imagined device fills."""

    def __init__(self, values: list[int]) -> None:
        self.values = values
        self.read = 0

    def tolist(self) -> list[int]:
        self.read += 1
        return self.values


class Event:
    """An event of an imagined device."""

    def __init__(self) -> None:
        self.done = False
        self.waited = 0

    def query(self) -> bool:
        return self.done

    def synchronize(self) -> None:
        self.waited += 1
        self.done = True


def _joined(read: list[list[Any]]) -> list[Any]:
    return [value for values in read for value in values]


def _pending(monkeypatch: Any, capturing: bool = False) -> tuple[Pending, Host, list[Event]]:
    monkeypatch.setattr(pending, "capturing", lambda torch: capturing)
    host, events = Host([1, 2]), [Event(), Event()]
    return Pending([(host, events[0]), (Host([3]), None), (Host([4]), events[1])], _joined), host, events


def test_nothing_is_read_before_every_event_has_happened(monkeypatch: Any) -> None:
    values, host, events = _pending(monkeypatch)
    assert not values.ready()
    assert values.values() is None
    events[0].done = True
    assert not values.ready()
    assert values.values() is None
    assert host.read == 0
    events[1].done = True
    assert values.ready()
    assert values.values() == [1, 2, 3, 4]
    assert values.values() == [1, 2, 3, 4]
    assert host.read == 1
    assert [event.waited for event in events] == [0, 0]


def test_it_waits_when_told(monkeypatch: Any) -> None:
    values, _, events = _pending(monkeypatch)
    events[0].done = True
    assert values.values(wait=True) == [1, 2, 3, 4]
    assert events[1].waited == 1


def test_a_capture_is_not_disturbed(monkeypatch: Any) -> None:
    values, _, events = _pending(monkeypatch, capturing=True)
    events[0].done = events[1].done = True
    assert not values.ready()
    assert values.values() is None
    assert values.values(wait=True) is None
    assert events[0].waited == 0
    monkeypatch.setattr(pending, "capturing", lambda torch: False)
    assert values.values() == [1, 2, 3, 4]


def test_without_a_device_it_is_there_at_once() -> None:
    values = Pending([(Host([5]), None)], _joined)
    assert values.ready()
    assert values.values() == [5]
    assert Pending([], _joined).values() == []


def test_what_is_made_of_values_comes_with_them(monkeypatch: Any) -> None:
    values, host, events = _pending(monkeypatch)
    made = values.then(lambda found: [sum(found)])
    assert made.values() is None
    assert host.read == 0
    events[0].done = events[1].done = True
    assert made.values() == [10]
    assert host.read == 1


class Rows:
    """A sink that keeps the kinds of rows, and what was told of troubles."""

    dropped = spent_ns = 0
    copies = False

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.troubles: list[str] = []

    def put(self, kind: str, row: tuple[Any, ...]) -> None:
        self.kinds.append(kind)
        if kind == "trouble":
            self.troubles.append(row[3])

    def put_all(self, kind: str, rows: Sequence[tuple[Any, ...]]) -> None:
        for row in rows:
            self.put(kind, row)

    def close(self, end: tuple[Any, ...] | None = None) -> bool:
        self.kinds.append("end")
        return True


def test_a_device_that_hangs_does_not_keep_the_program_from_ending(monkeypatch: Any) -> None:
    hanging, _, events = _pending(monkeypatch)
    coming, _, others = _pending(monkeypatch)
    for event in others:
        event.done = True
    monkeypatch.setattr(recorder, "PATIENCE", 0.02)
    for pendings, meant in (
        ([coming, hanging], ["state", "trouble", "end"]),
        ([coming], ["state", "iteration", "end"]),
    ):
        rows = Rows()
        known = recorder.Recorder(Settings(""), lambda _, rows=rows: rows)
        for one in pendings:
            known._late._waiting.append((one, lambda values: [("state", tuple(values))]))
        known._late.finish(3, 3)
        known.close("exit", 0, None)
        assert rows.kinds == meant
    assert [event.waited for event in events] == [0, 0]


def test_what_is_given_up_at_the_end_is_named(monkeypatch: Any) -> None:
    hanging, _, _ = _pending(monkeypatch)
    monkeypatch.setattr(recorder, "PATIENCE", 0.01)
    rows = Rows()
    known = recorder.Recorder(Settings(""), lambda _: rows)
    known.later(hanging, lambda values: [("state", tuple(values))])
    known.close("exit", 0, None)
    assert "1 rows lack numbers that a device did not give" in rows.troubles[0]


def test_a_forked_child_neither_asks_for_what_was_waited_for_nor_lets_go_of_it(monkeypatch: Any) -> None:
    """It has no device: to give pinned memory back would end it."""
    monkeypatch.setattr(pending, "capturing", lambda torch: False)
    own = recorder.Recorder(Settings(""), lambda _: Rows())
    host, event = Host([1]), Event()
    held = weakref.ref(host)
    own.later(Pending([(host, event)], _joined), lambda values: [])
    own.on_device.append((event, event))
    own.after_fork()
    event.done = True
    own.settle()
    assert own.on_device == []
    assert host.read == 0
    del host
    assert held() is not None


def test_no_event_is_asked_for_while_a_graph_is_captured(monkeypatch: Any) -> None:
    """That would end the capture: neither for a scalar that is read later, nor for what the device has spent."""
    on_device = Event()
    asked: list[Any] = []

    class Scalar:
        device = SimpleNamespace(type="cuda")

        def detach(self) -> Scalar:
            return self

        def reshape(self, size: int) -> Scalar:
            return self

        double = detach

    class Counted(Event):
        def query(self) -> bool:
            asked.append(self)
            return False

    capturing = False
    for module in (pending, backward, recorder):
        monkeypatch.setattr(module, "capturing", lambda torch: capturing)
    monkeypatch.setattr(backward, "to_host", lambda torch, result: (Host([5]), on_device))
    own = recorder.Recorder(Settings(""), lambda _: Rows())
    waiting = backward.read_later(Scalar())
    assert waiting is not None
    on_device.done = capturing = True
    own.on_device.append((on_device, Counted()))
    own.iteration_ended()
    assert asked == []
    assert backward.read_later(Scalar()) is None
    assert waiting.values() is None
    capturing = False
    own.iteration_ended()
    assert len(asked) == 1
    assert waiting.values() == [5]
