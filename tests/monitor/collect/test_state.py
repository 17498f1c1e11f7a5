"""Norms and fingerprints around steps: quick where tensors are alike, the same numbers as one by one, none in a capture."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from preflight.monitor.collect.arrivals import NAME, arrived

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import Kept, recorded  # noqa: E402

from preflight.monitor.collect import digest, pending, plain, state  # noqa: E402

pytestmark = pytest.mark.torch


def lists() -> list[list[Any]]:
    torch.manual_seed(0)
    several = [torch.randn(3), torch.randn(300, 40), torch.randn(1, 1), torch.randn(77, 129)]
    short = [1000 * torch.randn(length) for length in (128, 7, 128, 4096, 128, 9, 128, 7, 7, 7, 4096, 4097, 4096, 4096)]
    short[2][5] = float("inf")
    return [
        several,
        [*short[:3], None, several[1], *short[3:]],
        [tensor.half() for tensor in short],
        [torch.empty(2 * len(one) + 1)[1::2].copy_(one) for one in short],
        [tensor.bfloat16() for tensor in several],
        [torch.nn.Parameter(tensor) for tensor in several],
        [several[0], None, several[1], None],
        [several[0], torch.zeros(0), several[1].t(), several[1][::2, 1:]],
        [several[0], several[1].double(), several[1].to(torch.int64)],
        [torch.tensor([float("inf"), 1.0]), torch.tensor([float("nan")])],
        [None, None],
    ]


@pytest.mark.parametrize("tensors", lists())
def test_both_numbers_together_are_those_of_each_alone(tensors: list[Any]) -> None:
    together = digest.norms_and_fingerprints(tensors)
    assert together is not None
    sizes, bits = together.values() or ([], [])
    assert bits == [_one(digest.fingerprints, tensor) for tensor in tensors]
    alone = [_one(digest.norms, tensor) for tensor in tensors]
    assert list(map(repr, sizes)) == list(map(repr, alone))
    assert list(map(repr, (digest.norms(tensors) or together).values() or [])) == list(map(repr, alone))


def _one(compute: Any, tensor: Any) -> Any:
    return compute([tensor]).values()[0]


def steps(kept: Kept, moment: str) -> list[dict[str, Any]]:
    return [row for row in kept.table("state") if (row["moment"], row["what"]) == (moment, "parameter")]


def test_what_another_hand_changed_between_steps_has_its_own_norm() -> None:
    with recorded(detail_every=1) as kept:
        net = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for number in range(3):
            optimizer.zero_grad()
            net(torch.ones(1, 3)).sum().backward()
            if number == 2:
                net.weight.data.mul_(2.0)
            now = net.weight.norm().item()
            optimizer.step()
    before, after = steps(kept, "before_step"), steps(kept, "after_step")
    assert before[1]["norm"] == after[0]["norm"]
    assert before[1]["bits"] == after[0]["bits"]
    assert before[2]["norm"][0] == pytest.approx(now)
    assert before[2]["norm"][0] != after[1]["norm"][0]
    assert before[2]["norm"][1] == after[1]["norm"][1]


def test_norms_that_are_still_under_way_are_waited_for(monkeypatch: Any) -> None:
    class Late:
        """An event of an imagined device that has not happened when the step begins, nor when it is asked again."""

        def __init__(self) -> None:
            self.asked = 0

        def query(self) -> bool:
            self.asked += 1
            return self.asked > 9

        def synchronize(self) -> None:
            raise AssertionError("nobody waits for a device without an end")

    def late(tensors: list[Any]) -> Any:
        return pending.Pending(
            [(torch.tensor([tensor.norm().item() for tensor in tensors]), Late())], lambda read: read[0]
        )

    with recorded(detail_every=1) as kept:
        net = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for number in range(2):
            net(torch.ones(1, 3)).sum().backward()
            if number:
                net.weight.data.mul_(2.0)
                monkeypatch.setattr(state, "norms", late)
            now = [parameter.norm().item() for parameter in net.parameters()]
            optimizer.step()
    assert not kept.table("trouble")
    assert [len(steps(kept, moment)) for moment in ("before_step", "after_step")] == [2, 2]
    assert steps(kept, "before_step")[1]["norm"] == pytest.approx(now)
    assert not kept.table("trouble")


def test_in_a_capture_nothing_is_computed_and_training_goes_on(monkeypatch: Any) -> None:
    def train() -> list[float]:
        torch.manual_seed(0)
        net = torch.nn.Linear(3, 2)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = net(torch.randn(4, 3)).pow(2).mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        return losses

    plainly = train()
    for module in (plain, pending):
        monkeypatch.setattr(module, "capturing", lambda torch: True)
    with recorded() as kept:
        assert train() == plainly
    assert not kept.table("state")
    assert not kept.table("trouble")
    assert [row["norm"] for row in kept.table("tensor")] == [None] * 6
    assert len(kept.calls("step")) == 3


def test_calls_of_torch_are_not_told_inside_backward_passes_and_keep_their_place() -> None:
    class Squared(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return torch.mul(x, x)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return torch.mul(gradient, 2 * ctx.saved_tensors[0])

    with recorded(api=True) as kept:
        net = torch.nn.Linear(2, 2)
        loss = Squared.apply(net(torch.ones(1, 2))).sum()
        loss.backward()
    assert len(kept.calls("api.torch.mul")) == 1
    (linear,) = kept.calls("api.torch.nn.functional.linear")
    assert linear["parent"] == kept.calls("forward")[0]["q"]
    assert not kept.table("trouble")


def test_arrivals_are_lines_and_never_in_the_way(tmp_path: Path) -> None:
    arrived(str(tmp_path), "armed")
    arrived(str(tmp_path), "refused", "too old")
    lines = [json.loads(line) for line in (tmp_path / NAME).read_text().splitlines()]
    assert [(line["what"], line["reason"]) for line in lines] == [("armed", ""), ("refused", "too old")]
    arrived(str(tmp_path / "missing"), "armed")
    assert not (tmp_path / "missing").exists()


def test_gradients_that_the_program_gives_to_copies_of_the_weights_are_told() -> None:
    """A master copy in full precision need not take gradients; what is frozen in a module is left out all the same."""
    with recorded() as kept:
        net = torch.nn.Linear(3, 2)
        net.bias.grad = torch.ones(2)
        net.bias.requires_grad_(False)
        masters = [net.weight.detach().clone()]
        optimizer = torch.optim.SGD([*masters, net.bias], lr=0.1)
        for _ in range(2):
            net(torch.randn(4, 3)).sum().backward()
            masters[0].grad = net.weight.grad.clone()
            optimizer.step()
    names = {row["id"]: row["name"] for row in kept.table("variable")}
    rows = [row for row in kept.table("state") if row["what"] == "gradient" and row["moment"] == "before_step"]
    own = [row for row in rows if row["extra"]["optimizer"] == 0]
    assert [[names[ident] for ident in row["ids"]] for row in own] == [["optimizer0.group0.0"]] * 2
