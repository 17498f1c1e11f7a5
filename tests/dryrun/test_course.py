from __future__ import annotations

from preflight.dryrun.virtual.memory.course import MOST, Course


def test_the_highest_instant_of_a_piece_says_of_what_it_is() -> None:
    course = Course()
    course.taken(100, 512, "init", 0)
    course.taken(30, 512, "forward", 0)
    course.taken(50, 1024, "forward", 0)
    course.gone(1, "activation")
    course.taken(10, 1024, "backward", 0)
    told = course.points({0: "parameter", 2: "activation", 3: "gradient"})
    assert (told[0]["step"], told[0]["phase"]) == (0, "init")
    highest = max(told, key=lambda one: sum(one["owners"].values()))
    assert highest == {
        "step": 0, "phase": "forward", "reserved": 1024, "owners": {"parameter": 100, "activation": 80},
    }  # fmt: skip
    assert told[-1]["owners"] == {"parameter": 100, "activation": 50, "gradient": 10}


def test_a_long_run_is_told_in_few_points_and_keeps_its_peak() -> None:
    course = Course()
    number = 0
    for step in range(300):
        for phase in ("forward", "backward"):
            for _ in range(5):
                course.taken(7 if step != 123 else 70, 4096, phase, step)
                number += 1
            for back in range(number - 5, number):
                course.gone(back, "activation")
    told = course.points({})
    assert len(told) <= MOST
    assert max(sum(one["owners"].values()) for one in told) == 350
    assert [one["step"] for one in told] == sorted(one["step"] for one in told)


def test_nothing_was_taken() -> None:
    assert Course().points({}) == []
