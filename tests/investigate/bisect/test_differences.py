"""Delta debugging, group testing, and configurations as differences."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest
import yaml

from preflight.errors import InputError, UsageError
from preflight.investigate.bisect.differences import minimise
from preflight.investigate.bisect.groups import find_bad_nodes
from preflight.investigate.bisect.outcome import Outcome
from preflight.investigate.bisect.repeated import Repeated
from preflight.investigate.bisect.settings import (
    differences,
    flags_of,
    read_configuration,
    shown,
    with_differences,
    with_key,
    written,
)


def fails_with(culprits: set[int]) -> Repeated:
    return Repeated(lambda chosen: Outcome(kind="fail" if culprits <= set(chosen) else "pass"))


@pytest.mark.parametrize("culprits", [{0}, {39}, {3, 4}, {0, 39}, {5, 17, 30}, set(range(8))])
def test_the_smallest_set_is_found_and_confirmed(culprits: set[int]) -> None:
    found = minimise(range(40), fails_with(culprits))
    assert set(found.differences) == culprits
    assert found.confirmed
    assert found.tests <= 40 * 40 + 3 * 40


def test_one_of_many_takes_a_logarithm_of_tests() -> None:
    for culprit in range(64):
        assert minimise(range(64), fails_with({culprit})).tests <= 2 + 2 * math.ceil(math.log2(64))


def test_any_minimal_set_will_do_where_there_are_several() -> None:
    rng = random.Random(0)
    for _ in range(50):
        sets = [set(rng.sample(range(20), rng.randint(1, 3))) for _ in range(2)]

        def ask(chosen: tuple[int, ...], sets: list[set[int]] = sets) -> Outcome:
            return Outcome(kind="fail" if any(one <= set(chosen) for one in sets) else "pass")

        found = set(minimise(range(20), Repeated(ask)).differences)
        assert found in sets
        assert not any(one < found for one in sets)


def test_differences_that_break_it_otherwise_are_worked_around_or_named() -> None:
    def ask(chosen: tuple[int, ...]) -> Outcome:
        if (1 in chosen) != (2 in chosen):  # one needs the other
            return Outcome(kind="other-fail")
        return Outcome(kind="fail" if {1, 2, 7} <= set(chosen) else "pass")

    found = minimise(range(10), Repeated(ask))
    assert set(found.differences) == {1, 2, 7}
    assert set(found.untold) == {1, 2}
    assert not found.confirmed


def test_ends_that_are_not_as_said_are_told() -> None:
    assert "with all differences it works" in (minimise(range(3), fails_with({9})).reason or "")
    assert "without any difference it fails too" in (minimise(range(3), fails_with(set())).reason or "")
    assert minimise((), fails_with(set())).reason == "there is no difference"


def groups(bad: set[str], together: set[str] | None = None) -> Repeated:
    def ask(chosen: tuple[str, ...]) -> Outcome:
        failed = bool(bad & set(chosen)) or (together is not None and together <= set(chosen))
        return Outcome(kind="fail" if failed else "pass")

    return Repeated(ask)


NODES = [f"n{number:02d}" for number in range(64)]


def test_every_single_bad_node_of_64_is_found_in_nine_runs() -> None:
    for node in NODES:
        found = find_bad_nodes(NODES, groups({node}))
        assert found.nodes == (node,)
        assert found.tests <= 9
        assert set(found.cleared) == set(NODES) - {node}


def test_several_bad_nodes_are_found_one_by_one() -> None:
    rng = random.Random(3)
    for _ in range(40):
        bad = set(rng.sample(NODES, 3))
        found = find_bad_nodes(NODES, groups(bad))
        assert set(found.nodes) == bad
        assert found.tests <= 1 + 3 * 8


def test_nodes_that_fail_only_together_are_told_as_such() -> None:
    asked = groups(set(), {"n02", "n13"})
    found = find_bad_nodes(NODES[:16], asked)
    assert found.nodes == ()
    assert set(found.together) == {"n02", "n13"}
    assert found.reason is None
    assert not set(found.together) & set(found.cleared)
    assert all(chosen for chosen, _ in found.trail), "a run on no node was asked for"


def test_a_run_that_needs_many_nodes_is_filled_up_with_cleared_ones() -> None:
    sizes: list[int] = []

    def ask(chosen: tuple[str, ...]) -> Outcome:
        sizes.append(len(chosen))
        return Outcome(kind="fail" if "n05" in chosen else "pass")

    found = find_bad_nodes(NODES[:16], Repeated(ask), least=8)
    assert min(sizes) >= 8
    assert found.nodes == ("n05",)
    small = find_bad_nodes(NODES[:6], groups({"n05"}), least=5)
    assert "could be judged" in (small.reason or "")


def test_a_flaky_node_is_found_with_repeats() -> None:
    wrong = 0
    rng = random.Random(7)
    for _ in range(60):

        def ask(chosen: tuple[str, ...]) -> Outcome:
            return Outcome(kind="fail" if "n21" in chosen and rng.random() < 0.3 else "pass")

        wrong += find_bad_nodes(NODES[:32], Repeated(ask, 0.3, questions=8)).nodes != ("n21",)
    assert wrong <= 3


WORKS = "model: {layers: 4, hidden: 8}\nlr: 0.1\nstages: [{name: a}, {name: b}]\nlist: [1, 2]\n"
FAILS = "model: {layers: 8, hidden: 8, bias: true}\nlr: 0.1\nstages: [{name: a}, {name: c}]\nlist: [1, 3]\n"


def test_configurations_are_compared_key_by_key_and_written_in_part(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(WORKS)
    (tmp_path / "b.yaml").write_text(FAILS)
    one, other = (read_configuration(str(tmp_path / name)) for name in ("a.yaml", "b.yaml"))
    found = differences(one, other)
    assert [shown(d) for d in found] == [
        "model.layers: 4 -> 8", 'stages.1.name: "b" -> "c"', "list: [1, 2] -> [1, 3]", "model.bias: (absent) -> true",
    ]  # fmt: skip
    assert yaml.safe_load(written(with_differences(one, other, found), ".yaml")) == yaml.safe_load(FAILS)
    assert yaml.safe_load(written(with_differences(one, other, ()), ".yaml")) == yaml.safe_load(WORKS)
    some = json.loads(written(with_differences(one, other, found[:1]), ".json"))
    assert some == {**yaml.safe_load(WORKS), "model": {"layers": 8, "hidden": 8}}


def test_variables_and_flags_are_configurations_too(tmp_path: Path) -> None:
    (tmp_path / "a.env").write_text("export A=1\nB='x y'\n# c\n")
    (tmp_path / "b.env").write_text("B='x y'\nC=3\n")
    one, other = (read_configuration(str(tmp_path / name)) for name in ("a.env", "b.env"))
    assert {shown(d) for d in differences(one, other)} == {'A: "1" -> (absent)', 'C: (absent) -> "3"'}
    (tmp_path / "a.args").write_text("train.py --lr 1e-4 --fp16 --betas 0.9 0.95 --name=x")
    flags = read_configuration(str(tmp_path / "a.args"))
    assert flags_of(flags.content) == ["train.py", "--lr", "1e-4", "--fp16", "--betas", "0.9", "0.95", "--name", "x"]
    (tmp_path / "bad.env").write_text("what is this\n")
    with pytest.raises(InputError, match=r"bad\.env:1"):
        read_configuration(str(tmp_path / "bad.env"))
    with pytest.raises(UsageError, match="same kind"):
        differences(one, flags)


def test_a_key_is_set_and_a_wrong_one_gets_the_nearest(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(WORKS)
    assert yaml.safe_load(with_key(str(path), "model.layers", 12)[0])["model"]["layers"] == 12
    with pytest.raises(UsageError) as caught:
        with_key(str(path), "model.layer", 12)
    assert "model.layers" in (caught.value.hint or "")
