"""Loops that are cut short, and those that must not be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from preflight.vocabulary.profile import Profile

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.slow]


def test_while_loops_end_after_enough_steps_and_the_script_goes_on(run_program: Callable[[str], Profile]) -> None:
    seen = run_program(
        """
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset

        model = nn.Linear(8, 8).cuda()
        optimizer = torch.optim.Adam(model.parameters())
        loader = DataLoader(TensorDataset(torch.randn(400, 8)), 8)

        def endless():
            while True:
                for (batch,) in loader:
                    yield batch

        batches, plain = endless(), iter(loader)
        step = 0
        while step < 100_000:
            micro = 0
            while micro < 30:
                model(next(batches).cuda()).sum().backward()
                micro += 1
            optimizer.step()
            optimizer.zero_grad()
            step += 1
        assert step == 3, step
        model.eval()
        seen = 0
        with torch.no_grad():
            while seen < 50:
                model(next(plain)[0].cuda())  # 50 batches: the loader must not end before
                seen += 1
        assert seen == 2, seen
        for _ in range(48):
            next(plain)
        """
    )
    assert seen.steps == 3
    assert seen.backwards == 3 * 30


def test_rounds_that_accumulate_are_left_out_once_known_and_still_count_in_the_time(
    run_program: Callable[[str], Profile],
) -> None:
    seen = run_program(
        """
        import torch
        from torch import nn

        model = nn.Linear(8, 8).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        last = []
        for step in range(1000):
            for micro in range(40):
                model(torch.ones(4, 8, device="cuda")).sum().backward()
            last.append(micro)
            optimizer.step()
            optimizer.zero_grad()
        assert last == [39, 39, 39], last
        """
    )
    assert seen.steps == 3
    assert seen.backwards < 40 + 2 * 10
    assert seen.work is not None
    assert seen.work.rounds == 40


def test_loops_that_play_before_they_train_run_on_and_updates_by_hand_are_steps(
    run_program: Callable[[str], Profile],
) -> None:
    seen = run_program(
        """
        import torch
        from torch import nn

        model = nn.Linear(4, 2).cuda()
        memory = []
        for step in range(500):
            with torch.no_grad():
                memory.append(model(torch.ones(4, device="cuda")).argmax().item())
            if len(memory) >= 60:
                model.zero_grad()
                model(torch.ones(8, 4, device="cuda")).sum().backward()
                for p in model.parameters():
                    p.data.add_(p.grad, alpha=-0.1)
        assert len(memory) == 62, len(memory)
        model.eval()
        answers = [0] * 500
        for at in range(500):
            with torch.no_grad():
                model(torch.ones(4, device="cuda"))
            answers[at] = 1
        assert sum(answers) == 2
        """
    )
    assert seen.steps == 3
