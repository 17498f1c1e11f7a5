"""Names of a frame: what they stand for is read, and the frame is as it was."""

from __future__ import annotations

import gc
import sys
import weakref
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from preflight.monitor.collect.scope import owner_of, variables

sys.path.insert(0, str(Path(__file__).parent))


class Thing:
    pass


def look() -> dict[str, Any]:
    """What the recorder sees of its caller's names."""
    frame: FrameType | None = sys._getframe(1)
    assert frame is not None
    return dict(variables(frame))


def every_kind(given: int, *rest: int, only: int = 4, **more: int) -> tuple[dict[str, Any], dict[str, Any]]:
    late: Any
    shared = [given]

    def inner() -> tuple[dict[str, Any], dict[str, Any]]:
        own = shared
        return look(), {"own": own, "shared": shared, "given": given}

    found = look()
    seen, meant = inner()
    assert seen == meant
    if only < 0:
        late = 1  # never bound
        print(late)
    return found, {"given": given, "rest": rest, "only": only, "more": more, "shared": shared, "inner": inner}


def test_names_of_every_kind_are_read() -> None:
    found, meant = every_kind(1, 2, 3, more=5)
    assert found == meant


def test_names_of_a_module_a_class_a_generator_and_a_method() -> None:
    space: dict[str, Any] = {"look": look}
    exec("a = 1\nfound = look()", space)
    assert space["found"]["a"] == 1

    class Body:
        inside = 2
        found = look()

    assert Body.found["inside"] == 2

    def many(n: int) -> Any:
        for i in range(n):
            yield i, look()

    assert [(found["n"], found["i"]) for _, found in many(2)] == [(2, 0), (2, 1)]

    class Owner:
        def own(self) -> Any:
            return owner_of(sys._getframe())

        def shared(self) -> Any:
            return (lambda: (self, owner_of(sys._getframe())))()[1]

        @staticmethod
        def none() -> Any:
            return owner_of(sys._getframe())

    owner = Owner()
    assert owner.own() is owner.shared() is owner
    assert Owner.none() is None


def test_a_dictionary_of_the_program_stays_as_it_was() -> None:
    def program(with_a_look: bool) -> tuple[dict[str, Any], dict[str, Any]]:
        value = 1
        mine = locals()
        mine["extra"] = "kept"
        value = 2
        later = value
        if with_a_look:
            look()
        return dict(mine, mine=None), {"later": later}

    with_it, without = program(True), program(False)
    assert {**with_it[0], "with_a_look": None} == {**without[0], "with_a_look": None}


def test_what_is_bound_anew_dies_at_once() -> None:
    gc.disable()
    try:
        thing = Thing()
        known = weakref.ref(thing)
        assert look()["thing"] is thing
        thing = Thing()
        assert known() is None
        cell = Thing()
        known = weakref.ref(cell)
        look_at = lambda: cell  # noqa: E731, F821
        assert look()["cell"] is look_at()
        del cell
        assert known() is None
    finally:
        gc.enable()


def test_references_are_counted_as_before() -> None:
    thing = Thing()
    before = sys.getrefcount(thing)
    for _ in range(100):
        look()
    assert sys.getrefcount(thing) == before


@pytest.mark.torch
def test_a_program_does_not_see_that_its_names_are_read() -> None:
    torch = pytest.importorskip("torch")
    from recording import recorded

    def program() -> tuple[list[str], bool, bool]:
        network = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        mine = locals()
        held = Thing()
        known, batch = weakref.ref(held), torch.randn(3, 2)
        seen = weakref.ref(batch)
        network(batch).sum().backward()
        optimizer.step()
        held = batch = None
        return sorted(mine), known() is None, seen() is None

    without = program()
    with recorded() as kept:
        assert program() == without
    assert without[1:] == (True, True)
    assert [call["object"] for call in kept.calls("forward")] == ["network"]
    assert not kept.table("trouble")
