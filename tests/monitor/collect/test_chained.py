"""A loss that holds one that was gone backward from before is told, and through how many steps it reaches back."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import Kept, recorded  # noqa: E402

pytestmark = pytest.mark.torch
Losses = Callable[[], Any]
Turn = Callable[[Losses, Any], None]


def told(turn: Turn, word: str) -> list[int]:
    """What the passes of six iterations tell."""
    torch.manual_seed(0)
    with recorded() as kept:
        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(6):
            turn(lambda: model(torch.randn(8, 4)).square().mean(), optimizer)
    assert not kept.rows.get("trouble")
    return passes(kept, word)


def passes(kept: Kept, word: str) -> list[int]:
    return [call["args"].get(word, 0) for call in kept.calls("backward")]


def summed() -> Turn:
    """A sum over all iterations."""
    total: list[Any] = [0.0]

    def turn(loss: Losses, optimizer: Any) -> None:
        total[0] = total[0] + loss()
        optimizer.zero_grad()
        total[0].backward(retain_graph=True)
        optimizer.step()

    return turn


def once() -> Turn:
    """A loss that was computed before the loop."""
    known: list[Any] = []

    def turn(loss: Losses, optimizer: Any) -> None:
        known.extend([] if known else [loss()])
        optimizer.zero_grad()
        known[0].backward(retain_graph=True)
        optimizer.step()

    return turn


def logged() -> Turn:
    """A sum that is printed, and kept with its graphs."""
    total: list[Any] = [0.0]

    def turn(loss: Losses, optimizer: Any) -> None:
        one = loss()
        total[0] = total[0] + one
        optimizer.zero_grad()
        one.backward(retain_graph=True)
        optimizer.step()

    return turn


def in_turn(loss: Losses, optimizer: Any) -> None:
    """The first loss is used by one step, and with the second one by another."""
    first, second = loss(), loss()
    optimizer.zero_grad()
    first.backward(retain_graph=True)
    optimizer.step()
    optimizer.zero_grad()
    (first + second).backward()
    optimizer.step()


@pytest.mark.parametrize("turn", [summed(), once()])
def test_a_sum_over_iterations_goes_through_one_more_each_time(turn: Turn) -> None:
    assert told(turn, "through") == [0, 1, 2, 3, 4, 5]


def test_a_sum_that_is_only_printed_is_gone_through_by_no_pass() -> None:
    assert told(logged(), "through") == [0] * 6


def test_a_loss_that_two_steps_use_is_used_once_more_at_most() -> None:
    assert max(told(in_turn, "through")) <= 1
    assert told(in_turn, "again") == [0] * 12


def test_a_loss_that_is_passed_back_in_a_sum_again_is_told() -> None:
    def twice(loss: Losses, optimizer: Any) -> None:
        first, second = loss(), loss()
        optimizer.zero_grad()
        first.backward(retain_graph=True)
        (first + second).backward()
        optimizer.step()

    def apart(loss: Losses, optimizer: Any) -> None:
        first, second = loss(), loss()
        optimizer.zero_grad()
        first.backward(retain_graph=True)
        second.backward()
        optimizer.step()

    def read(loss: Losses, optimizer: Any) -> None:
        """The gradients of each are looked at, and made to zero by hand."""
        first, second = loss(), loss()
        optimizer.zero_grad()
        for one in (first, second):
            one.backward(retain_graph=True)
            for parameter in optimizer.param_groups[0]["params"]:
                parameter.grad.zero_()
        (first + second).backward()
        optimizer.step()

    def of_leaves(loss: Losses, optimizer: Any) -> None:
        first, second = loss(), loss()
        weight, bias = optimizer.param_groups[0]["params"]
        optimizer.zero_grad()
        first.backward(retain_graph=True, inputs=[weight])
        (first + second).backward(inputs=[bias])
        optimizer.step()

    def itself(loss: Losses, optimizer: Any) -> None:
        one = loss()
        optimizer.zero_grad()
        one.backward(retain_graph=True)
        one.backward()
        optimizer.step()

    def after_a_step(loss: Losses, optimizer: Any) -> None:
        one = loss()
        optimizer.zero_grad()
        one.backward(retain_graph=True)
        optimizer.step()
        one.backward()

    assert told(twice, "again") == told(itself, "again") == [0, 1] * 6
    assert told(after_a_step, "again") == [0] * 12
    assert told(apart, "again") == told(of_leaves, "again") == [0] * 12
    assert told(read, "again") == [0] * 18


def test_rows_that_are_passed_back_with_weights_of_the_program_are_no_loss() -> None:
    torch.manual_seed(0)
    with recorded() as kept:
        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            rows = model(torch.randn(8, 4)).square().sum(1)
            rows.backward(torch.rand(8), retain_graph=True)
            rows.mean().backward()
            optimizer.step()
    assert not any(passes(kept, "again"))


def test_a_pass_that_keeps_its_graph_says_so_however_it_was_asked() -> None:
    def keep(loss: Losses, optimizer: Any) -> None:
        loss().backward(retain_graph=True)

    def keep_by_name(loss: Losses, optimizer: Any) -> None:
        torch.autograd.backward(loss(), retain_graph=True)

    def let_go(loss: Losses, optimizer: Any) -> None:
        loss().backward()

    assert told(keep, "retain_graph") == told(keep_by_name, "retain_graph") == [True] * 6
    assert told(let_go, "retain_graph") == [0] * 6


def test_each_result_of_one_operation_is_a_loss_of_its_own() -> None:
    def taken_apart(again: bool) -> Turn:
        def turn(loss: Losses, optimizer: Any) -> None:
            optimizer.zero_grad()
            first, second = torch.stack([loss(), loss()]).unbind()
            first.backward(retain_graph=True)
            (first if again else second).backward()
            optimizer.step()

        return turn

    def in_a_sum(loss: Losses, optimizer: Any) -> None:
        optimizer.zero_grad()
        first, second = torch.stack([loss(), loss()]).unbind()
        first.backward(retain_graph=True)
        (second + loss()).backward()
        optimizer.step()

    assert told(taken_apart(again=False), "again") == told(in_a_sum, "again") == [0] * 12
    assert told(taken_apart(again=True), "again") == [0, 1] * 6


def test_a_loss_that_is_passed_back_in_shares_is_weighed_by_the_program() -> None:
    def shared(loss: Losses, optimizer: Any) -> None:
        one = loss()
        optimizer.zero_grad()
        for share in (0.25, 0.75):
            one.backward(gradient=torch.tensor(share), retain_graph=True)
        optimizer.step()

    assert told(shared, "again") == [0] * 12
