"""Numbers of small tensors, operators without rules for shapes, copies and checkpoints on the virtual GPU."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from preflight.vocabulary.profile import Profile

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.slow]


def test_what_hangs_on_small_tensors_goes_as_on_a_real_gpu(run_program: Callable[[str], Profile]) -> None:
    run_program(
        """
        import torch
        from torch import nn

        lengths = torch.tensor([5, 2, 7], device="cuda")
        assert lengths.max().item() == 7 and lengths.tolist() == [5, 2, 7] and (lengths.cpu() * 2).sum() == 28
        mask = torch.arange(8, device="cuda")[None] < lengths[:, None]
        wide = nn.Embedding(50_000, 16).cuda()
        h = wide(torch.randint(0, 50_000, (3, 8)).to("cuda"))
        assert h[mask].shape == (14, 16), h[mask].shape
        assert torch.repeat_interleave(torch.arange(3).cuda(), lengths).shape == (14,)
        assert torch.where(mask)[0].bincount().tolist() == [5, 2, 7]
        packed = nn.utils.rnn.pack_padded_sequence(h, lengths.cpu(), batch_first=True, enforce_sorted=False)
        assert packed.data.shape == (14, 16)
        edges = torch.tensor([[0, 1, 1, 0], [1, 0, 0, 1]]).cuda()
        assert torch.unique(edges, dim=1).shape == (2, 2)
        pointer = torch.zeros(1, dtype=torch.long, device="cuda")
        for _ in range(3):
            pointer[0] = (int(pointer) + 3) % 8
        assert int(pointer) == 1
        pointer.data.add_(1)
        assert int(pointer) == 2
        # What depends on numbers that nobody has stays unknown, and what it is written into becomes so.
        score = h.sum()
        unknown = torch.zeros(1, device="cuda")
        unknown += score
        assert (unknown > 3).item() in (True, False)
        counts = (h[..., 0] > 0).long().view(-1).bincount(minlength=6)
        assert counts.shape[0] >= 6
        steps = torch.zeros((), device="cuda")
        other = steps[None]
        steps += 2
        assert other.item() == 2 and float(steps) == 2.0
        assert torch.cuda.FloatTensor([1.5])[0].item() == 1.5 and isinstance(torch.ones(2).cuda(), torch.cuda.FloatTensor)
        """
    )


def test_a_mask_of_rows_selects_whole_rows(run_program: Callable[[str], Profile]) -> None:
    run_program(
        """
        import torch

        h = torch.randn(3, 5, 512, 64, device="cuda")
        mask = h.sum(-1, keepdim=True) > 0
        assert h.masked_select(mask).view(-1, 64).shape[0] == round(3 * 5 * 512 / 2)
        """
    )


def test_operators_without_rules_for_shapes_are_run_on_the_host(run_program: Callable[[str], Profile]) -> None:
    seen = run_program(
        """
        import torch
        from torch import nn

        layer = nn.Linear(600, 600).cuda()
        scale = nn.Parameter(torch.ones(1, device="cuda"))
        optimizer = torch.optim.SGD([*layer.parameters(), scale], lr=0.1)
        ctc = nn.CTCLoss()
        for _ in range(3):
            x = layer(torch.randn(50, 600, device="cuda"))
            fake = torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127)
            logs = x.view(50, 2, 300).log_softmax(-1)
            loss = ctc(logs, torch.randint(1, 300, (2, 10)).cuda(), torch.tensor([50, 50]), torch.tensor([10, 8]))
            solved = torch.linalg.lstsq(x[:, :20], x[:, 20:22]).solution
            assert solved.shape == (20, 2)
            (loss + fake.sum() * scale).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

        @torch.jit.script
        def shifted(x: torch.Tensor, by: float) -> torch.Tensor:
            return x + torch.tensor(by, device=x.device)

        assert shifted(torch.ones(2), 2.0).sum() == 6
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph), torch.cuda.nvtx.range("step"):
            layer(torch.ones(1, 600, device="cuda"))
        graph.replay()
        """
    )
    assert seen.steps == 3


def test_copies_and_checkpoints_take_the_memory_that_they_take_on_a_gpu(run_program: Callable[[str], Profile]) -> None:
    run_program(
        """
        import copy
        import torch
        from torch import nn

        model = nn.Linear(512, 512, bias=False).cuda()
        twice = nn.ModuleList([model, nn.Linear(512, 512, bias=False).cuda()])
        twice[1].weight = model.weight
        at = torch.cuda.memory_allocated()
        average = copy.deepcopy(twice)
        assert torch.cuda.memory_allocated() - at == 512 * 512 * 4
        assert average[0].weight is average[1].weight and isinstance(average[0].weight, nn.Parameter)
        with torch.no_grad():
            average[0].weight.lerp_(model.weight, 0.1)
            average[0].weight.detach().copy_(model.weight)

        at = torch.cuda.memory_allocated()
        torch.save({"model": model.state_dict(), "step": 3}, "checkpoint.pt")
        torch.save(model, "model.pt")
        assert torch.cuda.memory_allocated() == at
        found = torch.load("checkpoint.pt", map_location="cpu")
        assert found["step"] == 3 and found["model"]["weight"].device.type == "cpu"
        assert torch.cuda.memory_allocated() == at
        whole = torch.load("model.pt", weights_only=False)
        assert whole.weight.is_cuda and whole.weight.requires_grad and torch.cuda.memory_allocated() == at + 512 * 512 * 4
        model.load_state_dict(found["model"])
        with open("model.pt", "rb") as file:
            torch.load(file, weights_only=False)
        """
    )


def test_an_index_that_was_chosen_is_any_of_the_possible_ones(run_program: Callable[[str], Profile]) -> None:
    """A router that is balanced gives each of its experts an equal part of the tokens, and the report says so."""
    seen = run_program(
        """
        import torch
        import torch.nn.functional as F

        scores = torch.randn(4096, 8, device="cuda").softmax(-1)
        shares, chosen = scores.topk(2, dim=-1)
        for expert in range(8):
            rows, place = torch.where(chosen == expert)
            assert rows.shape[0] == 1024, rows.shape
            assert (chosen.flatten() == expert).nonzero().shape[0] == 1024
            assert torch.where(F.one_hot(chosen, num_classes=8).permute(2, 1, 0)[expert])[0].shape[0] == 1024
        best = scores.argmax(-1)
        assert best[0].item() == 0
        assert scores[best == 7].shape[0] == scores[best.eq(0)].shape[0] == 512
        assert scores[best != 3].shape[0] == 4096 - 512
        assert scores[best < 2].shape[0] == scores[best <= 1].shape[0] == scores[best > 5].shape[0] == 1024
        assert (chosen // 2 == 3).nonzero().shape[0] == (chosen % 4 == 1).nonzero().shape[0] == 2048
        assert (chosen + 1 == 3).nonzero().shape[0] == 4096  # of what was computed from it nothing is known: a half
        assert scores[best >= 8].shape[0] == 1  # none is chosen, where one at least is taken
        assert scores[scores.max(dim=1)[1] == 2].shape[0] == scores[scores.max(dim=1).indices == 2].shape[0] == 512
        drawn = torch.multinomial(scores, 1)
        assert (drawn == 1).nonzero().shape[0] == 512
        counts = torch.bincount(chosen.flatten(), minlength=8)
        assert counts.tolist() == [1024] * 8
        ends = counts.cumsum(0).cpu().tolist()
        assert ends[-1] == 8192
        assert torch.bincount(torch.randn(40000, 3, device="cuda").argmax(1)).tolist() == [13334, 13333, 13333]
        assert [len(part) for part in torch.randn(8192, 4, device="cuda").split(counts.tolist())] == [1024] * 8
        """
    )
    assert seen.assumptions[0] == "12% of the elements are chosen at train.py:8, which hangs on numbers"
    assert re.fullmatch(r"the like at \d other places", seen.assumptions[3])
