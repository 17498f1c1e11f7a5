"""From examples to invariants: values, generality, several runs."""

from __future__ import annotations

from typing import Any

from preflight.monitor.learn.crossrun import learn
from preflight.monitor.learn.evidence import Observed
from preflight.monitor.learn.identity import identity
from preflight.monitor.learn.implication import implied, without_implied
from preflight.monitor.relation import UNSEEN, Example, Relation
from preflight.vocabulary.invariant import Clause, Invariant


class Axiom(Relation):
    """Something holds of all.

    Said once.
    """

    name = "axiom"


class Named(Relation):
    """Something holds of a name.

    Said of each.
    """

    name = "named"
    fields = ("object",)
    learns = True


def run(kind: type[Relation], *rows: tuple[Any, ...], times: int = 6) -> Observed:
    """A run in whose every iteration each row (subject, holds or value, context) is seen."""
    observed = Observed()
    for iteration in range(times):
        for subject, what, context in rows:
            value = UNSEEN if isinstance(what, bool) else what
            example = Example((subject,) if subject else (), what is not False, context, value=value)
            observed.see(kind.name, example, iteration)
    return observed


def learnt(kind: type[Relation], *runs: Observed, **more: Any) -> list[Invariant]:
    return learn(runs, {kind.name: kind}, **more).invariants


def said(invariants: list[Invariant]) -> list[tuple[dict[str, Any], str]]:
    return [(one.subject, one.text) for one in invariants]


def test_an_axiom_that_holds_is_said_in_general() -> None:
    found = learnt(Axiom, run(Axiom, ("a", True, {}), ("b", True, {})))
    assert said(found) == [({}, "Something holds of all.")]
    assert (found[0].id, found[0].support) == ("axiom", 12)


def test_an_axiom_that_fails_gets_a_precondition() -> None:
    rows = (("a", True, {"closure": False}), ("b", False, {"closure": True}))
    assert said(learnt(Axiom, run(Axiom, *rows))) == [({}, "Something holds of all, when closure is false.")]


def test_an_axiom_that_nothing_saves_is_told() -> None:
    found = learn([run(Axiom, ("a", True, {}), ("b", False, {}))], {"axiom": Axiom})
    assert (found.invariants, found.broken) == ([], {"axiom": 6})


def test_what_is_known_is_not_widened() -> None:
    known = Invariant(id="k", relation="axiom", precondition=((Clause("world", "is", 2),),))
    holds = run(Axiom, ("a", True, {"world": 1}), ("a", True, {"world": 2}))
    assert learnt(Axiom, holds, base={"axiom": [known]})[0].precondition == known.precondition
    fails = run(Axiom, ("a", True, {"world": 2, "mode": "train"}), ("a", False, {"world": 2, "mode": "eval"}))
    assert learnt(Axiom, fails, base={"axiom": [known]})[0].precondition == (
        (Clause("world", "is", 2), Clause("mode", "is", "train")),
    )


def test_a_value_is_learnt_for_each_name() -> None:
    found = learnt(Named, run(Named, ("a", "float32", {}), ("b", "int64", {})))
    assert [one.subject for one in found] == [
        {"object": "a", "value": "float32"},
        {"object": "b", "value": "int64"},
    ]


def test_values_that_depend_on_something_get_preconditions() -> None:
    rows = (("a", "float32", {"autocast": None}), ("a", "bfloat16", {"autocast": "bfloat16"}))
    found = learnt(Named, run(Named, *rows))
    assert [(one.subject["value"], one.precondition) for one in found] == [
        ("bfloat16", ((Clause("autocast", "is", "bfloat16"),),)),
        ("float32", ((Clause("autocast", "is", None),),)),
    ]


def test_a_few_values_are_one_of_them() -> None:
    found = learnt(Named, run(Named, ("a", [2, 8], {}), ("a", [4, 8], {})))
    assert [one.subject for one in found] == [{"object": "a", "values": [[2, 8], [4, 8]]}]


def test_many_values_are_nothing() -> None:
    assert not learnt(Named, run(Named, *(("a", value, {}) for value in range(20))))


def test_what_was_seen_once_or_twice_is_nothing() -> None:
    assert not learnt(Named, run(Named, ("a", 1, {}), ("a", 1, {}), times=2))


def test_several_runs_must_agree() -> None:
    one = run(Named, ("a", 1, {}), ("b", 1, {}), ("c", True, {}))
    other = run(Named, ("a", 1, {}), ("b", 2, {}))
    found = learn([one, other], {"named": Named})
    assert [invariant.subject for invariant in found.invariants] == [{"object": "a", "value": 1}]
    assert found.unstable >= 1
    assert found.unconfirmed == 1


def test_an_invariant_names_the_runs_that_spoke_of_it() -> None:
    one, other, third = (run(Named, *rows) for rows in ([("a", 1, {})], [("a", 1, {}), ("b", 1, {})], [("b", 1, {})]))
    found = learn([one, other, third], {"named": Named})
    assert {found.speak[each.id]: each.subject["object"] for each in found.invariants} == {(0, 1): "a", (1, 2): "b"}


def test_what_one_run_cannot_tell_is_learnt_of_as_many_as_it_takes() -> None:
    class Ranged(Named):
        runs = 2

    one, silent = run(Ranged, ("a", 1, {})), run(Ranged, ("b", 1, {}))
    assert not learn([one], {"named": Ranged}).invariants
    assert not learn([one], {"named": Ranged}).unconfirmed, "no other run could have confirmed it"
    assert not learn([one, silent], {"named": Ranged}).invariants
    assert [each.subject for each in learn([one, one], {"named": Ranged}).invariants] == [{"object": "a", "value": 1}]


def test_the_order_of_runs_does_not_matter() -> None:
    runs = [run(Named, ("a", 1, {"n": n}), ("b", n > 1, {"n": n})) for n in range(4)]
    assert learn(runs, {"named": Named}) == learn(runs[::-1], {"named": Named})


def invariant(subject: dict[str, Any], *alternatives: tuple[Clause, ...]) -> Invariant:
    return Invariant(identity("named", subject, alternatives), "named", subject, alternatives)


def test_the_more_general_statement_implies() -> None:
    everything, some = invariant({}), invariant({"object": "a"}, (Clause("mode", "is", "train"),))
    assert implied(everything, some)
    assert not implied(some, everything)
    wide = invariant({"object": "a"}, (Clause("mode", "one of", ["train", "eval"]),))
    assert implied(wide, some)
    assert not implied(invariant({"object": "b"}), some)
    assert implied(invariant({}, (Clause("n", "at least", 2),)), invariant({"object": "a"}, (Clause("n", "is", 3),)))
    assert without_implied([some, wide, invariant({"object": "b"})]) == [wide, invariant({"object": "b"})]
    assert without_implied([some, everything, wide]) == [everything]


def test_another_value_is_not_implied() -> None:
    assert not implied(invariant({}), invariant({"object": "a", "value": 1}))
    assert implied(invariant({"value": 1}), invariant({"object": "a", "value": 1}))
    assert not implied(invariant({"value": 2}), invariant({"object": "a", "value": 1}))


def test_the_id_follows_from_what_is_said() -> None:
    assert identity("named", {}, ()) == "named"
    assert identity("named", {"a": 1, "b": 2}, ()) == identity("named", {"b": 2, "a": 1}, ())
    assert identity("named", {"a": 1}, ()) != identity("named", {"a": 2}, ())
    assert identity("named", {"a": 1}, ()) != identity("named", {"a": 1}, ((Clause("mode", "is", "train"),),))
