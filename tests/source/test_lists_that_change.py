"""Lists, sets and dictionaries that change where nobody knows how often, or whether: nothing false is said of them."""

from __future__ import annotations

from typing import Any

import pytest

LOOPS = {
    "+=": ("xs = []", "xs += [1]", "len(xs)"),
    "insert": ("xs = [7]", "xs.insert(0, i)", "len(xs)"),
    "insert moves": ("xs = [7]", "xs.insert(0, i)", "xs[0]"),
    "pop": ("xs = list(range(20))", "xs.pop()", "len(xs)"),
    "pop moves": ("xs = list(range(20))", "xs.pop(0)", "xs[0]"),
    "del": ("xs = list(range(20))", "del xs[0]", "xs[0]"),
    "item": ("xs = [0] * 20", "xs[i] = 5", "xs[3]"),
    "entry": ("xs = dict.fromkeys(range(20))", "xs.pop(i)", "len(xs)"),
    "del entry": ("xs = dict.fromkeys(range(20))", "del xs[i]", "len(xs)"),
    "reverse": ("xs = [1, 2, 3]", "xs.reverse()", "xs[0]"),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_of_unknown_length_leaves_no_count_and_no_place(name: str, follow: Any) -> None:
    before, change, asked = LOOPS[name]
    found = follow(f"import random\n{before}\nfor i in range(random.randint(3, 9)):\n    {change}\nanswer = {asked}\n")
    assert found["answer"] is ...


BRANCHES = {
    "pop": ("xs = [1, 2, 3]", "xs.pop()", ("len(xs)", "3 in xs"), ("xs[0]", 1)),
    "set": ("xs = {1, 2}", "xs.discard(1)", ("len(xs)", "1 in xs"), ("2 in xs", True)),
    "sort": ("xs = [3, 1, 2]", "xs.sort()", ("xs[0]", "xs[2]"), ("len(xs)", 3)),
    "item": ("xs = [3, 1]", "xs[0] = 4", ("xs[0]", "4 in xs"), ("xs[1]", 1)),
    "entry": ("xs = {'a': 1, 'b': 2}", "xs.pop('a')", ("len(xs)", "'a' in xs"), ("xs['b']", 2)),
    "del entry": ("xs = {'a': 1, 'b': 2}", "del xs['a']", ("len(xs)", "'a' in xs"), ("xs['b']", 2)),
}


@pytest.mark.parametrize("name", BRANCHES)
def test_what_one_side_of_a_branch_changes_is_not_known_and_the_rest_is(name: str, follow: Any) -> None:
    before, change, unknown, (asked, answer) = BRANCHES[name]
    asks = "".join(f"\nu{at} = {one}" for at, one in enumerate(unknown))
    found = follow(f"import random\n{before}\nif random.random() < 0.5:\n    {change}{asks}\nknown = {asked}\n")
    assert [found[f"u{at}"] for at in range(len(unknown))] == [...] * len(unknown)
    assert found["known"] == answer


def test_a_thing_that_one_side_adds_is_still_seen(follow: Any) -> None:
    found = follow(
        """
        import random, torch
        layers = [torch.nn.Linear(4, 4)]
        if random.random() < 0.5:
            layers.append(torch.nn.Dropout(0.5))
        else:
            layers.append(torch.nn.ReLU())
        second = layers[1]
        """
    )
    assert {option.name for option in found.value("second").options} == {"torch.nn.Dropout", "torch.nn.ReLU"}
