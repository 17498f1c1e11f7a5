"""What is still looked at when norms are taken rarely: the parameters after each step, and those that somebody writes to."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import Kept, recorded  # noqa: E402

from preflight.monitor.judging.engine import Engine  # noqa: E402
from preflight.monitor.library_of import general  # noqa: E402

pytestmark = pytest.mark.torch


def train(
    every: int, steps: int = 24, touched: int | None = None, again: bool = False, first: int = 8, between: int = 1
) -> Kept:
    """A run whose norms are thinned, in which another hand writes to one matrix of several after a step."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(6, 6) for _ in range(5)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with recorded(norms_every=every, detail_first=first, detail_every=0) as kept:
        for step in range(steps):
            optimizer.zero_grad()
            model(torch.randn(8, 6)).pow(2).mean().backward()
            optimizer.step()
            if touched is not None and (
                step == touched or (again and step > touched and (step - touched) % between == 0)
            ):
                with torch.no_grad():
                    model[2].weight[1:3] *= 1.05
        optimizer.zero_grad()
        model(torch.randn(8, 6))
    return kept


def looked(kept: Kept, moment: str, what: str) -> set[int]:
    return {row["i"] for row in kept.table("state") if (row["moment"], row["what"]) == (moment, what) and row["i"] >= 8}


def test_norms_after_a_step_are_the_last_to_become_rare() -> None:
    kept = train(8)
    assert looked(kept, "before_step", "gradient") == {8, 16}
    assert looked(kept, "after_step", "parameter") == set(range(8, 24))
    kept = train(12)
    assert looked(kept, "after_step", "parameter") == {11, 12, 23}  # and before the next look, to compare with


@pytest.mark.parametrize("touched", [10, 13, 18])
def test_what_another_hand_writes_is_told_at_the_next_step(touched: int) -> None:
    engine = Engine(map(general, ["weights-between-steps"]))
    for window in train(8, touched=touched).windows():
        engine.see(window)
    engine.finish()
    told = engine.violations()
    assert [one.first_step for one in told] == [touched + 1]
    assert told[0].variables == ("model.2.weight",)


def test_what_is_written_in_every_step_is_looked_at_a_few_times() -> None:
    kept = train(16, steps=40, touched=8, again=True)
    assert looked(kept, "before_step", "gradient") == {*range(9, 18), 32}


@pytest.mark.parametrize("touched", [5, 6, 7])
def test_what_is_written_soon_after_the_detail_is_told_when_it_stays_the_only_one(touched: int) -> None:
    """Five detailed iterations show four gaps, one fewer than make a change a surprise."""
    for again, told in ((False, [f"before step {touched + 1} by"]), (True, [])):
        engine = Engine(map(general, ["weights-between-steps"]))
        for window in train(4, steps=40, touched=touched, again=again, first=5, between=6).windows():
            engine.see(window)
        engine.finish()
        found = [one.message for one in engine.violations()]
        assert len(found) == len(told)
        assert all(words in message for words, message in zip(told, found, strict=True))
