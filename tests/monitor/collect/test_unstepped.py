"""What an optimizer holds that has never stepped is looked at: what stays as it is lacks a step, what moves does not."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import Kept, recorded  # noqa: E402

from preflight.monitor.judging.engine import Engine  # noqa: E402
from preflight.monitor.series import Watching  # noqa: E402
from preflight.vocabulary.invariant import Invariant  # noqa: E402

nn = torch.nn
pytestmark = pytest.mark.torch
Step = Callable[[Any, Any], None]


def broken(kept: Kept, name: str) -> int:
    """How many statements were found broken of those that a relation makes of what was recorded."""
    engine = Engine([Invariant(id=name, relation=name)])
    for window in kept.windows():
        engine.see(window)
    engine.finish()
    assert engine.judged.get(name, 0) or engine.violations()
    return len(engine.violations())


def forgotten(model: Any, optimizer: Any) -> None:
    """Nothing steps."""


def by_hand(model: Any, optimizer: Any) -> None:
    """An update of the program's own; the optimizer only clears."""
    for one in model.parameters():
        one.data -= 0.05 * one.grad


def compiled() -> Step:
    """A compiled step, which runs no hooks."""

    @torch.compile(backend="eager")
    def step(optimizer: Any) -> None:
        optimizer.step()

    return lambda model, optimizer: step(optimizer)


def alone(step: Step) -> Kept:
    """A model whose optimizer is cleared in each iteration, evaluated after every fourth."""
    torch.manual_seed(0)
    with recorded() as kept:
        model = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for number in range(24):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            step(model, optimizer)
            if number % 4 == 3:
                model.eval()
                with torch.no_grad():
                    model(torch.randn(8, 4))
                model.train()
    return kept


def unseen(kept: Kept) -> list[int]:
    """The optimizers of which it is said that something moves what they hold, and no step of theirs was recorded."""
    watching = Watching()
    for window in kept.windows():
        watching.see(window)
    return watching.unseen()


def test_what_moves_without_a_step_that_was_recorded_is_named() -> None:
    assert unseen(alone(by_hand)) == [0]
    assert unseen(alone(forgotten)) == unseen(alone(lambda model, optimizer: optimizer.step())) == []


def test_an_optimizer_that_clears_and_never_steps_is_told_where_its_parameters_rest() -> None:
    assert broken(alone(forgotten), "steps-come")
    assert not broken(alone(by_hand), "steps-come")


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # of torch's own, as it compiles
def test_a_compiled_step_is_not_missed() -> None:
    assert not broken(alone(compiled()), "steps-come")


def test_a_critic_that_is_never_stepped_is_told_and_one_with_a_turn_is_not() -> None:
    for every, wrong in ((0, True), (5, False)):
        torch.manual_seed(0)
        with recorded() as kept:
            maker, critic = nn.Linear(4, 2), nn.Linear(2, 1)
            first, second = (torch.optim.SGD(one.parameters(), lr=0.05) for one in (maker, critic))
            for number in range(24):
                second.zero_grad()
                critic(maker(torch.randn(8, 4)).detach()).mean().backward()
                if every and number % every == 0:
                    second.step()
                first.zero_grad()
                critic(maker(torch.randn(8, 4))).mean().backward()
                first.step()
        assert bool(broken(kept, "steps-come")) == wrong


def batches(epochs: int) -> Iterator[Any]:
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(64, 4)), 8, shuffle=True)
    for _ in range(epochs):
        for (batch,) in loader:
            yield batch


@pytest.mark.parametrize(("each", "wrong"), [(0, True), (8, False)])
def test_gradients_that_are_gathered_over_all_epochs_are_told_and_over_one_are_not(each: int, wrong: bool) -> None:
    torch.manual_seed(0)
    with recorded() as kept:
        model = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for number, batch in enumerate(batches(4), 1):
            model(batch).square().mean().backward()
            if each and number % each == 0:
                optimizer.step()
                optimizer.zero_grad()
    assert bool(broken(kept, "gathered-gradients-used")) == wrong


@pytest.mark.parametrize("moved", [False, True])
def test_weights_that_are_saved_after_passes_that_moved_nothing_are_told(moved: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    with recorded() as kept:
        model = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for _ in range(70):
            model(torch.randn(8, 4)).square().mean().backward()
            if moved:
                by_hand(model, optimizer)
        torch.save(model.state_dict(), tmp_path / "model.pt")
    assert bool(broken(kept, "gathered-gradients-used")) != moved


def test_two_threads_may_make_optimizers_at_the_same_time() -> None:
    inside = [threading.Event(), threading.Event()]
    layers = [nn.Linear(2, 2), nn.Linear(2, 2)]
    made: list[Any] = [None, None]

    def held(number: int) -> Iterator[Any]:
        inside[number].set()
        assert inside[1].wait(20)  # the first goes on while the second is being made
        if number:
            assert done.wait(20)
        yield from layers[number].parameters()

    def make(number: int) -> None:
        made[number] = torch.optim.SGD([{"params": held(number)}], lr=0.1)
        done.set()

    done = threading.Event()
    with recorded() as kept:
        threads = [threading.Thread(target=make, args=(number,)) for number in (0, 1)]
        threads[0].start()
        assert inside[0].wait(20)
        threads[1].start()
        for thread in threads:
            thread.join(20)
        layers[0](torch.randn(3, 2)).sum().backward()
        for one in made:
            one.step()
    assert not kept.rows.get("trouble")
    assert [call["args"]["sizes"] for call in kept.calls("optimizer.new")] == [[2], [2]]
