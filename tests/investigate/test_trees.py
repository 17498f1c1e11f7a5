"""The trees: every leaf can be reached by what is known, every answer has its reason, and what is not known is not guessed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from preflight.catalog.remedy_files import remedy_names
from preflight.catalog.tree_files import load_tree, tree_names
from preflight.errors import CatalogError, UsageError
from preflight.investigate import answers
from preflight.investigate.answers import Facts
from preflight.investigate.trees import tree_markdown, tree_mermaid, tree_text, walk, walk_text
from preflight.vocabulary.incident import Culprit, FirstFailure, Hypothesis, Incident, SeriesFinding
from preflight.vocabulary.log import Hit, NodeEvent, Reading, StepLine


def incident(**more: Any) -> Incident:
    given: dict[str, Any] = {
        "state": "crashed", "onset": "running", "scope": "rank", "category": "oom", "root_category": None,
        "symptom_category": None, "signature": "oom.cuda-allocation", "confidence": 0.9, "headline": "it failed", "culprit": Culprit(),
        "first_failure": FirstFailure(path="r3.log", line=7, text="Error: x"),
    }  # fmt: skip
    return Incident(**{**given, **more})


def losses(values: list[float], name: str = "loss") -> Reading:
    return Reading(steps=tuple(StepLine(file=0, line=k, step=k, values={name: v}) for k, v in enumerate(values)))


FALLING = [5.0 - 0.02 * k for k in range(100)]
FLAT = [5.0 + 0.01 * (k % 3) for k in range(100)]
PLATEAU = SeriesFinding(kind="plateau", series="loss", text="flat since step 60")
SLOW = SeriesFinding(kind="slowdown", series="seconds", text="12 % slower since step 50")


def slow(phase: str, **observed: Any) -> Facts:
    return Facts(observed={"slow_phase": phase, **observed})


REACHED: list[tuple[str, str, Facts]] = [
    ("triage", "done", Facts(incident=incident(state="ended", category="none", signature=None))),
    ("triage", "environment", Facts(incident=incident(onset="start", category="environment"))),
    ("triage", "hang", Facts(incident=incident(state="hung", category="network"))),
    ("triage", "initialisation", Facts(incident=incident(state="stalled", series=(PLATEAU,)), reading=losses(FLAT))),
    ("triage", "stalled", Facts(incident=incident(state="stalled", series=(PLATEAU,)), reading=losses(FALLING + [3.0] * 100))),
    ("triage", "watch", Facts(incident=incident(state="running", category="none"), reading=Reading(
        steps=tuple(StepLine(file=0, line=k, step=k, values={"loss": v, "seconds": 1.0}) for k, v in enumerate(FALLING))))),
    ("triage", "slow", Facts(incident=incident(state="slow", series=(SLOW,)), reading=losses(FALLING))),
    ("triage", "crash", Facts(incident=incident())),
    ("first-five-minutes", "at-start", Facts(incident=incident(onset="start"))),
    ("first-five-minutes", "early-one", Facts(incident=incident(onset="warm-up"))),
    ("first-five-minutes", "early-all", Facts(incident=incident(onset="warm-up", scope="all"))),
    ("first-five-minutes", "node", Facts(incident=incident(scope="node"))),
    ("first-five-minutes", "late-one", Facts(incident=incident())),
    ("first-five-minutes", "late-all", Facts(incident=incident(scope="all"))),
    ("crash", "oom-device", Facts(incident=incident())),
    ("crash", "oom-host", Facts(incident=incident(signature="oom.host-kill"))),
    ("crash", "usercode", Facts(incident=incident(category="usercode", signature="usercode.shape-mismatch"))),
    ("crash", "usercode-collectives", Facts(incident=incident(category="usercode", signature="flight.different-calls"))),
    ("crash", "usercode-device", Facts(incident=incident(category="usercode", hypotheses=(
        Hypothesis(cause="index-out-of-range", title="t", category="usercode", probability=0.8),)))),
    ("crash", "network-rank", Facts(incident=incident(category="network", culprit=Culprit(ranks=(3,), confidence=0.8)))),
    ("crash", "network-open", Facts(incident=incident(category="network"))),
    *((("crash", name, Facts(incident=incident(category=name)))) for name in (
        "numerical", "hardware", "data", "environment", "checkpoint", "preemption", "compile", "other")),
    ("performance", "loader", slow("data")),
    ("performance", "host", slow("forward", gpu_utilisation=0.2)),
    ("performance", "bandwidth", slow("forward", gpu_utilisation=0.98)),
    ("performance", "bandwidth", slow("compute", clocks_fine=True, gpu_utilisation=0.98)),
    ("performance", "throttling", Facts(observed={"slow_phase": "compute"}, reading=Reading(events=(
        NodeEvent(kind="throttle", hit=Hit(signature="", file=0, line=1, offset=0, text="HW Slowdown")),)))),
    ("performance", "synchronise", slow("backward", extra_synchronisation=True)),
    ("performance", "gradients", slow("backward", extra_synchronisation=False)),
    ("performance", "no-overlap", slow("communication", communication_overlaps=False)),
    ("performance", "network", slow("communication", communication_overlaps=True)),
    ("performance", "shard", slow("optimizer", optimizer_share=0.4)),
    ("performance", "python", slow("optimizer", optimizer_share=0.1)),
    ("performance", "saving", slow("checkpoint")),
]  # fmt: skip


@pytest.mark.parametrize(("tree", "leaf", "facts"), REACHED, ids=[f"{tree}-{leaf}" for tree, leaf, _ in REACHED])
def test_a_leaf_is_reached_by_what_is_known(tree: str, leaf: str, facts: Facts) -> None:
    way = walk(facts, tree, follow=False)
    assert way.leaf is not None, walk_text(way)
    assert way.leaf.id == leaf
    assert all(step.because for step in way.steps)


def test_every_leaf_of_every_tree_is_among_those() -> None:
    assert {(tree, leaf) for tree, leaf, _ in REACHED} == {
        (name, leaf.id) for name in tree_names() for leaf in load_tree(name).leaves
    }


def test_a_walk_goes_on_into_the_next_tree_with_its_evidence() -> None:
    way = walk(Facts(incident=incident()))
    assert [step.tree for step in way.steps] == ["triage", "triage", "triage", "crash", "crash"]
    assert way.leaf is not None
    assert way.leaf.id == "oom-device"
    assert "r3.log:7: Error: x" in walk_text(way)


def test_what_nothing_tells_is_not_guessed_and_a_person_can_say_it() -> None:
    way = walk(Facts())
    assert way.leaf is None
    assert "preflight investigate triage" in (way.open or "")
    assert "cannot tell" in walk_text(way)
    said = walk(Facts(), told={"running": "no", "planned": "no", "triage.started": "no", "before-first-step": "no"})
    assert said.leaf is not None
    assert said.leaf.id == "environment"
    assert all(step.by_person for step in said.steps)
    with pytest.raises(UsageError, match="is no answer"):
        walk(Facts(), told={"running": "perhaps"})


@pytest.mark.parametrize("name", tree_names())
def test_a_tree_asks_what_can_be_answered_and_names_remedies_that_exist(name: str) -> None:
    tree = load_tree(name)
    for question in tree.questions:
        assert callable(getattr(answers, question.ask))
        assert question.find_out
    assert not {one for leaf in tree.leaves for one in leaf.remedies} - set(remedy_names())
    assert not {leaf.tree for leaf in tree.leaves if leaf.tree} - set(tree_names())


@pytest.mark.parametrize("name", tree_names())
def test_a_tree_is_drawn_with_every_place_and_the_way_taken(name: str) -> None:
    tree = load_tree(name)
    text, chart = tree_text(tree), tree_mermaid(tree)
    for place in (*tree.questions, *tree.leaves):
        assert place.text in text
        assert place.text in chart
    assert chart.count("-->") == sum(len(one.branches) for one in tree.questions)
    assert all(leaf.text in tree_markdown(tree) for leaf in tree.leaves)
    facts = next(facts for one, _, facts in REACHED if one == name)
    way = walk(facts, name, follow=False)
    assert tree_mermaid(tree, way).count("==>") == len(way.steps)
    assert tree_text(tree, way).count("─>") == len(way.steps)


def test_a_loss_that_wobbles_never_fell_and_one_that_fell_did() -> None:
    import random

    rng = random.Random(5)
    wrong = 0
    for _ in range(200):
        noise = losses([3.0 + rng.gauss(0, 0.3) for _ in range(200)])
        wrong += answers.loss_ever_fell(Facts(reading=noise)).answer == "yes"
    assert wrong <= 10
    fell = losses([3.0 - 0.01 * k + rng.gauss(0, 0.3) for k in range(200)])
    assert answers.loss_ever_fell(Facts(reading=fell)).answer == "yes"
    assert answers.loss_ever_fell(Facts(reading=losses([1.0] * 5))).answer is None


def test_the_phase_that_grew_most_is_the_slow_one() -> None:
    steps = tuple(
        StepLine(file=0, line=k, step=k, values={"data_seconds": 0.1 + (0.3 if k > 50 else 0), "forward_seconds": 0.2})
        for k in range(100)
    )
    assert answers.slow_phase(Facts(reading=Reading(steps=steps))).answer == "data"
    assert answers.slow_phase(Facts(reading=Reading(steps=steps[:5]))).answer is None


FAULTS = Path(__file__).parent / "data" / "faults"
LEADS_TO = {
    "address-space": "oom-host", "host-oom": "oom-host", "sigkill": "oom-host", "exception": "usercode",
    "skipped-collective": "usercode-collectives", "full-disk": "checkpoint", "corrupt-checkpoint": "checkpoint",
    "loader-exception": "data", "nan": "numerical", "sigterm": "preemption", "sigterm-agent": "preemption", "hang": "network-rank",
    "sigstop": "network-rank", "hang-still-there": "hang", "healthy": "done", "healthy-two-nodes": "done", "recovered-restart": "done",
    "missing-module": "environment", "port-in-use": "environment", "wrong-interface": "environment",
    "dead-node": "network-rank", "dead-store": "network-rank",
}  # fmt: skip


@pytest.mark.parametrize("fault", sorted(LEADS_TO))
def test_logs_of_injected_faults_lead_to_the_right_leaf(fault: str) -> None:
    from preflight.investigate.judge import judge
    from preflight.source.logs import read_logs

    reading = read_logs([FAULTS / fault])
    way = walk(Facts(incident=judge(reading), reading=reading))
    assert way.leaf is not None, walk_text(way)
    assert way.leaf.id == LEADS_TO[fault], walk_text(way)


def test_a_tree_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "trees").mkdir()
    text = (
        'title = "t"\nsources = ["s"]\n[[questions]]\nid = "a"\ntext = "?"\nask = "running"\nfind_out = "x"\n'
        'branches = [{answer = "yes", to = "b"}]\n[[leaves]]\nid = "b"\ntext = "end"\n'
    )
    (tmp_path / "trees" / "own.toml").write_text(text)
    assert load_tree("own", [str(tmp_path)]).leaves[0].text == "end"
    for number, (old, new, said) in enumerate(
        [
            ('to = "b"', 'to = "c"', "leads to 'c'"),
            ("[[leaves]]", '[[leaves]]\nid = "z"\ntext = ""\n[[leaves]]', "no answer leads to 'z'"),
        ]
    ):
        folder = tmp_path / str(number) / "trees"
        folder.mkdir(parents=True)
        (folder / "bad.toml").write_text(text.replace(old, new))
        with pytest.raises(CatalogError, match=said):
            load_tree("bad", [str(folder.parent)])


def test_a_walk_is_data() -> None:
    way = walk(Facts(incident=incident()))
    assert msgspec.json.decode(msgspec.json.encode(way), type=type(way)) == way
