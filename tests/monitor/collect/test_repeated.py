"""Passes that come again from one place are counted where they would cost too much, and told wherever something came between."""

from __future__ import annotations

import runpy
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import Kept, recorded  # noqa: E402
from torch.nn.modules import module as hooks  # noqa: E402

from preflight.monitor.collect.repeated import NAME  # noqa: E402
from preflight.monitor.judging.engine import Engine  # noqa: E402
from preflight.monitor.judging.examples import Examples  # noqa: E402
from preflight.monitor.learn.crossrun import learn  # noqa: E402
from preflight.monitor.learn.evidence import Observed  # noqa: E402
from preflight.monitor.library_of import shipped  # noqa: E402
from preflight.monitor.relation import relations  # noqa: E402
from preflight.monitor.scope import scope_of  # noqa: E402
from preflight.monitor.views.fetches import fetches_of  # noqa: E402

pytestmark = pytest.mark.torch
HEALTHY = Path(__file__).resolve().parents[3] / "benchmarks" / "monitor" / "healthy"
PASSES = 20


def net() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 4))


def train(between: Callable[[Any, Any], object], steps: int = 6, **settings: Any) -> Kept:
    """A run that does something between its steps, of which the first two are recorded in detail."""
    torch.manual_seed(0)
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with recorded(**{"detail_first": 2, "detail_every": 0, "repeats": 2, **settings}) as kept:
        for _ in range(steps):
            between(model, torch.randn(8, 4))
            optimizer.zero_grad()
            model(torch.randn(8, 4)).pow(2).mean().backward()
            optimizer.step()
    assert not kept.table("trouble")
    return kept


def passes(kept: Kept, graphed: bool = False) -> list[int]:
    """How many passes without gradients, or with them, are told in each iteration."""
    told = [row["i"] for row in kept.calls("forward") if row["context"].startswith("grad") == graphed]
    return [told.count(number) for number in range(max(row["i"] for row in kept.calls("step")) + 1)]


def left_out(kept: Kept) -> dict[int, float]:
    return {row["i"]: row["value"] for row in kept.table("scalar") if row["name"] == NAME}


def rollout(model: Any, x: Any) -> None:
    with torch.no_grad():
        for _ in range(PASSES):
            x = model(x)


def test_of_passes_of_one_place_the_first_are_told_and_the_others_counted() -> None:
    kept = train(rollout)
    # The passes before the first step and after it are one iteration: it ends where the next one begins to train.
    first, *_, last = passes(kept)
    assert first >= PASSES
    assert set(passes(kept)[2:-1]) == {2}
    assert last == 0
    assert {count for number, count in left_out(kept).items() if number >= 2} == {PASSES - 2}


def test_in_detail_and_without_a_limit_all_are_told() -> None:
    assert sum(passes(train(rollout, detail_first=9))) == 6 * PASSES
    assert sum(passes(train(rollout, repeats=0))) == 6 * PASSES


def test_what_comes_between_begins_the_count_anew() -> None:
    def modes(model: Any, x: Any) -> None:
        model.eval()
        rollout(model, x)
        model.train()
        rollout(model, x)

    kept = train(modes)
    assert set(passes(kept)[2:-1]) == {4}
    told = [row["args"]["training"] for row in kept.calls("forward") if row["i"] == 3 and row["context"] == "nograd"]
    assert told == [False, False, True, True]


def test_each_place_context_and_model_is_told() -> None:
    other = net()

    def several(model: Any, x: Any) -> None:
        for _ in range(PASSES):
            with torch.no_grad():
                model(x)
                model(x)
                other(x)
            with torch.inference_mode():
                other(x)

    kept = train(several)
    told = Counter((row["object"], row["place"], row["context"]) for row in kept.calls("forward") if row["i"] == 3)
    assert [count for (_, _, context), count in told.items() if context != "grad"] == [2] * 4


def test_of_passes_with_gradients_a_few_more_are_told() -> None:
    def unrolled(model: Any, x: Any) -> None:
        total = 0.0
        for _ in range(PASSES):
            total = total + model(x).sum()
        total.backward()

    kept = train(unrolled, repeats=1)
    assert set(passes(kept, graphed=True)[3:-1]) == {5}
    assert len(kept.calls("backward")) == 12


def test_batches_of_an_evaluation_are_counted_and_numbered_on() -> None:
    data = torch.utils.data.TensorDataset(torch.randn(40, 4))
    loader = torch.utils.data.DataLoader(data, batch_size=2)

    def evaluate(model: Any, x: Any) -> None:
        with torch.no_grad():
            for number, (batch,) in enumerate(loader):
                if number == 15:
                    model.eval()  # something between
                model(batch)
        model.train()

    kept = train(evaluate)
    fetched = [row for row in kept.calls("fetch") if row["i"] == 3]
    assert [row["args"]["fetch"] for row in fetched] == [0, 1, 16, 17, 20]
    assert fetched[-1]["error"] == "StopIteration"
    indices = {row["fetch"]: row["indices"] for row in kept.table("batch") if row["i"] == 3 and row["indices"]}
    assert indices[1] == [2, 3]
    assert indices[16] == [32, 33]


@pytest.mark.parametrize("without", [torch.no_grad, torch.inference_mode])
def test_a_batch_of_an_evaluation_whose_passes_are_counted_is_not_trained_on(without: Callable[[], Any]) -> None:
    """Behind the last batch that is told no pass of the evaluation is, but one of the training."""
    samples = torch.utils.data.TensorDataset(torch.arange(96.0).reshape(24, 4))
    measured, trained = (torch.utils.data.DataLoader(samples, batch_size=size) for size in (1, 8))
    torch.manual_seed(0)
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    with recorded(detail_first=2, detail_every=0, repeats=4) as kept:
        for _ in range(4):
            for (batch,) in trained:
                optimizer.zero_grad()
                model(batch).pow(2).mean().backward()
                optimizer.step()
            with without():
                for (batch,) in measured:
                    for _ in range(3):
                        model(batch)
    assert left_out(kept)
    for window in kept.windows():
        assert not any(one.trained for one in fetches_of(window) if one.batch.size == 1)


def test_the_parts_of_a_counted_pass_meet_no_hooks_and_one_that_raises_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiler = sys.modules.get("torch._dynamo.eval_frame")
    if compiler is not None:  # what another test compiled keeps the hooks in place
        monkeypatch.setattr(compiler, "cached_backends", {}, raising=False)
    seen: list[int] = []
    before = len(hooks._global_forward_hooks)

    class Part(torch.nn.Linear):
        def forward(self, x: Any) -> Any:
            seen.append(len(hooks._global_forward_hooks))
            if len(seen) == 30:
                raise ValueError("the program's own")
            return super().forward(x)

    model = torch.nn.Sequential(Part(4, 4), torch.nn.Tanh())

    def go(trained: Any, x: Any) -> None:
        with torch.no_grad():
            for _ in range(PASSES):
                try:
                    model(x)
                except ValueError:
                    continue

    kept = train(go, detail_first=0)
    assert set(seen) == {before}
    assert len(hooks._global_forward_hooks) == before
    assert set(passes(kept)[1:-1]) == {2}
    assert not model._forward_hooks


def test_what_is_learnt_of_a_whole_recording_holds_in_one_with_passes_left_out() -> None:
    def evaluate(model: Any, x: Any) -> None:
        model.eval()
        rollout(model, x)
        model.train()
        for _ in range(PASSES):
            model(x)

    whole, thin = (list(train(evaluate, 14, repeats=most).windows()) for most in (0, 1))
    kinds = {name: kind for name, kind in relations().items() if kind.learns}
    for learnt_of, checked in ((whole, thin), (thin, whole)):
        examples, seen = Examples(kinds.values()), Observed()
        for window in learnt_of:
            for number, judged, where in examples.see(window):
                for example in judged:
                    seen.see(list(kinds)[number], example, where.iteration, scope_of(where))
        learnt = learn([seen], kinds).invariants
        assert "passes-alike" in {one.relation for one in learnt}
        engine = Engine(learnt)
        for window in checked:
            engine.see(window)
        engine.finish()
        assert [one.message for one in engine.violations()] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["ppo_clip", "reinforce", "dqn_replay", "soft_actor_critic", "gan_dcgan", "lbfgs_closure", "maml_inner_loop"],
)
def test_where_passes_are_left_out_no_correct_program_is_alarmed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [f"{name}.py"])
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    torch.set_num_threads(1)
    try:
        with recorded(detail_first=3, detail_every=32, repeats=1) as kept:
            runpy.run_path(str(HEALTHY / f"{name}.py"), run_name="__main__")
    finally:
        torch.set_num_threads(threads)
        torch.set_rng_state(state)
    engine = Engine(shipped())
    for window in kept.windows():
        engine.see(window)
    engine.finish()
    assert not engine.failures
    assert [one.message for one in engine.violations()] == []
    if name in ("ppo_clip", "reinforce"):
        assert left_out(kept)
