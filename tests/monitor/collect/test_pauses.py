"""The recorder pauses: what it tells around a pause, what it takes away meanwhile, and that nothing is made up of it."""

from __future__ import annotations

import contextlib
import itertools
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import Kept, recorded  # noqa: E402

from preflight.monitor.collect import budget, pauses  # noqa: E402
from preflight.monitor.collect.session import Session  # noqa: E402
from preflight.monitor.judging.engine import Engine  # noqa: E402
from preflight.monitor.library_of import shipped  # noqa: E402

pytestmark = pytest.mark.torch
FIRST = 12
HEALTHY = Path(__file__).resolve().parents[3] / "benchmarks" / "monitor" / "healthy"


@contextlib.contextmanager
def pausing(monkeypatch: Any, length: int = 9, **settings: Any) -> Iterator[tuple[Kept, Any]]:
    """Record, and pause from the twelfth iteration on, for so many steps each time, whatever it costs."""
    held: list[Any] = []
    own = pauses.Pauses.turn

    def turn(self: Any) -> None:
        held[:] = [self]
        if not self.on and self.recorder.iteration >= FIRST and not hasattr(self, "tried"):
            self.tried = self.begin(0.001, pauses.Costs(0.001, 0.001))
        own(self)

    def fixed(self: Any) -> None:
        self._length = length

    monkeypatch.setattr(pauses, "compiled", lambda: False)  # another test of this process may have compiled something
    monkeypatch.setattr(pauses.Pauses, "turn", turn)
    monkeypatch.setattr(pauses.Pauses, "_take_stretch", fixed)
    with recorded(**{"budget": 2.0, "detail_first": 3, **settings}) as kept:
        yield kept, held


def model_and_data() -> tuple[Any, Any, Any]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Dropout(0.1), torch.nn.Linear(16, 3))
    return model, torch.randn(256, 6), torch.randint(3, (256,))


def train(steps: int = 80, clearing_until: int = 10**9, loader: bool = False, evaluating: bool = True) -> Any:
    """A plain training that evaluates now and then; from a step on it may forget to clear its gradients."""
    model, x, y = model_and_data()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 25, 0.5)
    data = torch.utils.data.TensorDataset(x, y)
    batches: Any = torch.utils.data.DataLoader(data, 16, shuffle=True)

    def endless() -> Iterator[Any]:
        while True:
            if loader:
                yield from batches
            else:
                at = torch.randint(256, (16,))
                yield x[at], y[at]

    for step, (inputs, targets) in zip(range(steps), endless(), strict=False):
        model.train()
        if step < clearing_until:
            optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), targets).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if evaluating and step % 7 == 6:
            model.eval()
            with torch.no_grad():
                model(x)
    return [one.detach().clone() for one in model.parameters()]


def judged(kept: Kept) -> list[Any]:
    engine = Engine(shipped())
    for window in kept.windows():
        engine.see(window)
    engine.finish()
    assert not engine.failures
    return engine.violations()


@pytest.mark.parametrize("loader", [False, True])
def test_whole_iterations_are_told_between_pauses(monkeypatch: Any, loader: bool) -> None:
    with pausing(monkeypatch) as (kept, _):
        train(loader=loader)
    gaps = kept.table("paused")
    assert len(gaps) >= 4
    assert not kept.table("trouble")
    told = {row["i"] for row in kept.calls()}
    for gap, after in itertools.pairwise(gaps):
        assert gap["i"] > gap["since"] + 9
        assert not told & set(range(gap["since"] + 1, gap["i"]))
        assert set(range(gap["i"], after["since"] + 1)) <= told
        assert after["since"] - gap["i"] + 1 == pauses.TOLD
    steps = {row["i"]: row["s"] for row in kept.calls("step")}
    assert all(number == step for number, step in steps.items())  # each iteration has one step, also after pauses
    for window in kept.windows():
        if window.complete and window.calls:
            assert [call.name for call in window.plain].count("step") == 1
            assert [call.name for call in window.plain].count("backward") == 1
            assert len(window.named("zero_grad")) == 1
    assert not judged(kept)


def test_parameters_are_the_same_bit_by_bit(monkeypatch: Any) -> None:
    plain = train()
    with pausing(monkeypatch) as (kept, _):
        watched = train()
    assert len(kept.table("paused")) > 2
    assert all(torch.equal(one, other) for one, other in zip(plain, watched, strict=True))


def test_nothing_of_the_recorder_is_in_the_way_of_a_pause(monkeypatch: Any) -> None:
    """Hooks on modules and watching functions are away, and there again afterwards; all of it goes in the end."""
    hooks = torch.nn.modules.module
    functional = torch.nn.functional
    own = functional.cross_entropy, torch.autograd.backward, hooks._has_any_global_hook
    seen: dict[bool, set[Any]] = {True: set(), False: set()}

    def look(recorder: Any) -> None:
        there = functional.cross_entropy is own[0], torch.autograd.backward is own[1]
        seen[recorder.away].add((*there, len(hooks._global_forward_hooks), len(hooks._global_forward_pre_hooks)))

    with pausing(monkeypatch) as (_, held):
        model, x, y = model_and_data()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for _ in range(60):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x[:8]), y[:8]).backward()
            optimizer.step()
            if held:
                look(held[0].recorder)
    assert seen[True] == {(True, True, 0, 0)}
    assert {one[2:] for one in seen[False]} == {(1, 1)}
    assert not any(one[1] for one in seen[False])
    assert (functional.cross_entropy, torch.autograd.backward, hooks._has_any_global_hook) == own
    assert not hooks._global_forward_hooks


def test_a_fault_that_begins_in_a_pause_is_told_at_the_next_stretch(monkeypatch: Any) -> None:
    with pausing(monkeypatch) as (kept, _):
        train(clearing_until=17)  # the first pause ends some steps later
    first = kept.table("paused")[0]
    assert first["since"] < 17 < first["i"]
    told = [one for one in judged(kept) if one.relation == "gradients-cleared"]
    assert told
    assert told[0].first_step - first["s"] <= 2


def test_a_program_that_ends_in_a_pause_says_where_it_was(monkeypatch: Any) -> None:
    with pausing(monkeypatch, length=500) as (kept, _):
        train(steps=60)
    gap = kept.table("paused")[-1]
    end = kept.table("end")[-1]
    assert end["s"] == gap["s"] == 60
    assert not [row for row in kept.calls() if row["i"] > gap["since"]]
    assert not judged(kept)


def test_a_pause_ends_where_another_optimizer_takes_over(monkeypatch: Any) -> None:
    with pausing(monkeypatch, length=10**6) as (kept, _):
        model, x, y = model_and_data()
        for steps in (20, 100):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
            for _ in range(steps):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x[:8]), y[:8]).backward()
                optimizer.step()
    told = kept.calls("step")
    assert len({row["object"] for row in told}) == 2
    assert not kept.table("trouble")


def test_a_pause_ends_where_steps_take_longer_than_before(monkeypatch: Any) -> None:
    """Its length was chosen for short steps: of long ones it would pass over hours."""
    now = itertools.count(0.0, pauses._ENDURES / 8)
    monkeypatch.setattr(pauses, "elapsed", lambda: next(now))
    with pausing(monkeypatch, length=10**6) as (kept, _):
        train(steps=60, evaluating=False)
    gaps = kept.table("paused")
    assert len(gaps) >= 3
    assert all(gap["s"] - gap["since_s"] <= 12 for gap in gaps)


def test_loops_that_go_on_in_a_pause_are_counted_on(monkeypatch: Any) -> None:
    with pausing(monkeypatch, length=5) as (kept, _):
        train(loader=True, evaluating=False)
    fetches = [(row["args"]["epoch"], row["args"]["fetch"]) for row in kept.calls("fetch")]
    assert all(0 <= fetch <= 16 for _, fetch in fetches)
    assert len(set(fetches)) == len(fetches)
    resumed = {row["i"] for row in kept.table("paused")}
    told = [row for row in kept.table("batch") if row["i"] in resumed and row["loader"].startswith("loader")]
    assert told
    assert all(row["indices"] is None or len(row["indices"]) == 16 for row in told)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gan_dcgan", "grad_scaler_skips", "cnn_classifier"])
def test_of_correct_programs_nothing_is_told(monkeypatch: Any, tmp_path: Path, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(HEALTHY / f"{name}.py")])
    with pausing(monkeypatch, length=5) as (kept, _), contextlib.suppress(SystemExit):
        runpy.run_path(sys.argv[0], run_name="__main__")
    assert len(kept.table("paused")) >= 2
    assert not kept.table("trouble")
    assert not judged(kept)


def test_no_pause_begins_where_somebody_may_ask_for_a_checkpoint(monkeypatch: Any) -> None:
    with pausing(monkeypatch, control="control") as (kept, _):
        train(steps=60)
    assert not kept.table("paused")


def test_no_pause_begins_where_something_was_compiled(monkeypatch: Any) -> None:
    with pausing(monkeypatch) as (kept, _):
        monkeypatch.setattr(pauses, "compiled", lambda: True)
        train(steps=60)
    assert not kept.table("paused")


def test_the_length_of_a_pause_follows_from_what_a_stretch_costs(monkeypatch: Any) -> None:
    """Steps of a millisecond, of which recording takes one more: the share is kept, whatever the first guess was."""
    monkeypatch.setattr(pauses, "compiled", lambda: False)
    now = [0.0]
    monkeypatch.setattr(pauses, "clock", lambda: now[0])
    session = Session(pauses_settings())
    recorder, own = session.recorder, session.pauses
    own._setting = SimpleNamespace(set_aside=lambda: None, bring_back=lambda: None)
    own.clears, own.resumes, own.forbids = [], [], []
    recorder._open_sink = lambda _: SimpleNamespace(put=lambda kind, row: None, spent_ns=0)
    recorder.primary, optimizer, recorded_ = 0, object(), 0.0
    optimizer = type("Optimizer", (), {})()
    recorder.stepped = True
    assert own.begin(0.001, pauses.Costs(0.001, 0.0))
    for _ in range(20_000):
        now[0] += 0.001
        if not recorder.away:
            now[0] += 0.001
            recorded_ += 0.001
            recorder.spent += 500_000
            recorder.step += 1
        if recorder.at_step is not None:
            recorder.at_step(optimizer)
        if not recorder.away:
            own.turn()
            recorder.iteration += 1
    assert 0.01 < recorded_ / now[0] <= 0.02 * 1.1
    assert own.on


def pauses_settings() -> Any:
    from preflight.monitor.collect.settings import Settings

    return Settings("", budget=2.0, detail_every=0)


def test_the_budget_lets_it_pause_only_where_the_least_costs_twice_as_much(monkeypatch: Any) -> None:
    from test_budget import Run

    for always, grace, pausing_ in ((0.03, 0.0, False), (0.2, 0.0, True), (0.2, 5.0, False), (0.2, 0.5, True)):
        cost = lambda run, always=always: 0.01 * (always + (0.05 if run.norms else 0.0))  # noqa: E731
        run = Run(monkeypatch, 0.01, cost, grace=grace)
        begun: list[Any] = []
        run.budget.pauses = SimpleNamespace(on=False, begin=lambda work, costs, begun=begun: begun.append(costs))
        run.go(400)
        assert bool(begun) is pausing_
    assert budget._PAUSES * budget._SEEN == 2
