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


def test_evaluation_is_cut_in_training_mode_and_without_no_grad(run_program: Callable[[str], Profile]) -> None:
    seen = run_program(
        """
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset

        model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = DataLoader(TensorDataset(torch.randn(400, 8)), 8)
        rounds = []
        for epoch in range(100):
            for (batch,) in loader:
                model(batch.cuda()).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
            seen = 0
            for (batch,) in loader:
                with torch.no_grad():
                    model(batch.cuda())
                seen += 1
            rounds.append(seen)
            seen = total = 0
            for (batch,) in loader:
                total += model(batch.cuda()).sum().item()
                seen += 1
            rounds.append(seen)
            losses = []
            for (batch,) in loader:  # not an evaluation: the graph is kept for a backward pass to come
                losses.append(model(batch.cuda()).sum())
            rounds.append(len(losses))
            torch.stack(losses).sum().backward()
            optimizer.step()
        assert rounds == [2, 4, 50], rounds
        """
    )
    assert seen.steps == 4


def test_evaluation_whose_batches_differ_and_text_that_grows_are_cut(run_program: Callable[[str], Profile]) -> None:
    seen = run_program(
        """
        import torch
        from torch import nn

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.embed, self.out = nn.Embedding(50, 64), nn.Linear(64, 50)

            def forward(self, ids):
                return self.out(self.embed(ids))

        @torch.no_grad()
        def write(model, count):
            ids = torch.zeros(64, 1, dtype=torch.long, device="cuda")
            for _ in range(count):
                ids = torch.cat((ids, model(ids)[:, -1:].argmax(-1)), 1)
            return ids

        model = Model().cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        lengths = [7 + 37 * k % 100 for k in range(300)]
        for epoch in range(100):
            text = write(model, 40)  # is trained on
            model(text).sum().backward()
            optimizer.step()
            assert text.shape == (64, 41)
            seen = 0
            with torch.no_grad():
                for batch in [torch.ones(64, length, dtype=torch.long) for length in lengths]:
                    model(batch.cuda())
                    seen += 1
            assert seen == 16, seen
        with torch.no_grad():
            ids = torch.zeros(64, 1, dtype=torch.long, device="cuda")
            for _ in range(200):
                ids = torch.cat((ids, model(ids)[:, -1:].argmax(-1)), 1)
        assert ids.shape == (64, 17), ids.shape
        """
    )
    assert seen.steps == 3


def test_loops_inside_a_module_are_cut_where_they_repeat_one_network(run_program: Callable[[str], Profile]) -> None:
    run_program(
        """
        import torch
        from torch import nn

        class Sampler(nn.Module):
            def __init__(self):
                super().__init__()
                self.denoise = nn.Linear(256, 256)
                self.layers = nn.ModuleList([nn.Linear(256, 256) for _ in range(20)])
                self.rounds = self.deep = 0

            def forward(self, x):
                self.rounds = self.deep = 0
                for step in reversed(range(1000)):
                    x = x - self.denoise(x)
                    self.rounds += 1
                for layer in self.layers:
                    x = layer(x)
                    self.deep += 1
                return x

        sampler = Sampler().cuda()
        with torch.no_grad():
            sampler(torch.randn(16, 256, device="cuda"))
        assert (sampler.rounds, sampler.deep) == (5, 20), (sampler.rounds, sampler.deep)
        sampler(torch.randn(16, 256, device="cuda")).sum().backward()
        assert (sampler.rounds, sampler.deep) == (1000, 20), (sampler.rounds, sampler.deep)
        """
    )
