"""How often places are looked at."""

from __future__ import annotations

import gc
import weakref

from preflight.monitor.collect.bounded import BoundedLooks


def test_each_of_the_first_places_is_looked_at_a_few_times() -> None:
    looks = BoundedLooks(2, 2)
    asked = ["a", "a", "a", "b", "c", "b", "b"]
    assert [looks.take(place) for place in asked] == [True, True, False, True, False, True, False]
    assert not any(looks.left(place) for place in "abc")


def test_to_ask_whether_a_look_is_left_counts_none() -> None:
    looks = BoundedLooks(1, 1)
    assert looks.left("a")
    assert looks.left("a")
    assert looks.take("a")
    assert not looks.left("a")


def test_places_that_are_gone_leave_room() -> None:
    class Place:
        pass

    looks, first = BoundedLooks(1, 1, weakref.WeakKeyDictionary()), Place()
    assert looks.take(first)
    assert not looks.take(Place())
    del first
    gc.collect()
    assert looks.take(Place())
