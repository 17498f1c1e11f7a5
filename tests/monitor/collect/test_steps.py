"""What is told of a step beside its gradients: autocast contexts without a pass, an accumulation, who set a mode."""

from __future__ import annotations

import sys
import types
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded  # noqa: E402

pytestmark = pytest.mark.torch


def _train(net: Any, optimizer: Any, inside: bool) -> None:
    optimizer.zero_grad()
    given = torch.randn(4, 3)
    out = None if inside else net(given)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = (net(given) if out is None else out).float().pow(2).mean()
    loss.backward()
    optimizer.step()


@pytest.mark.parametrize("inside", [True, False])
def test_a_step_tells_of_an_autocast_context_in_which_no_model_was_called(inside: bool) -> None:
    with recorded() as kept:
        net = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            _train(net, optimizer, inside)
    assert [row["args"]["casts_idle"] for row in kept.calls("step")] == [0 if inside else 1] * 2


@pytest.mark.parametrize(("width", "told"), [(2, [-1, -1]), (5, [])])
def test_a_copy_of_a_network_that_is_trained_is_looked_at_before_it_is_called(width: int, told: list[int]) -> None:
    """Averages and targets; another network waits until it is called."""
    with recorded() as kept:
        net, average = torch.nn.Linear(3, 2), torch.nn.Linear(3, width)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            net(torch.randn(4, 3)).sum().backward()
            optimizer.step()
    looked = [row["extra"]["optimizer"] for row in kept.table("state") if row["what"] == "parameter"]
    assert [one for one in looked if one < 0] == told
    assert ("average.weight" in {row["name"] for row in kept.table("variable")}) == bool(told), average


@pytest.mark.parametrize("first", [3, 0])
def test_networks_whose_own_optimizers_never_step_are_looked_at_as_those_of_none(first: int) -> None:
    """In the first steps of the first optimizer, and not in the iterations in detail alone, which others' steps use up."""
    with recorded(detail_first=first, detail_every=0) as kept:
        nets = [torch.nn.Linear(3, 2) for _ in range(4)]
        optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in nets]
        target, idle = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
        held = torch.optim.SGD([*target.parameters(), *idle.parameters()], lr=0.1)
        target(torch.randn(4, 3)), idle(torch.randn(4, 3))
        for _ in range(5):
            for net, optimizer in zip(nets, optimizers, strict=True):
                optimizer.zero_grad()
                net(torch.randn(4, 3)).sum().backward()
                optimizer.step()
    names = {row["id"]: row["name"] for row in kept.table("variable")}
    looks = [row for row in kept.table("state") if row["what"] == "parameter" and row["extra"] == {"optimizer": -1}]
    seen = [row for row in looks if {"target.weight", "idle.weight"} <= {names[one] for one in row["ids"]}]
    assert held is not None
    assert len(seen) == first
    assert all(row["bits"] for row in seen)


class Lazy:
    """Stands for what is not there yet; whoever asks what it is has it made."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        raise RuntimeError("it is not there yet")


def test_what_a_proxy_stands_for_is_not_asked_for() -> None:
    """The names in sight are looked through for models, for copies of them, and for tables of tensors."""
    lazy, gone = Lazy(), weakref.proxy(set())
    proxies = [lazy, gone]
    own = types.SimpleNamespace(proxies=proxies, lazy=lazy)
    with recorded() as kept:
        net = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            net(torch.randn(4, 3)).sum().backward()
            optimizer.step()
    assert own.proxies is proxies
    assert kept.table("trouble") == []
    assert [len(kept.calls(name)) for name in ("forward", "step")] == [2, 2]


@pytest.mark.parametrize("part", ["coarse.Coarse", "shadows.Shadows"])
def test_a_step_is_told_where_a_look_at_copies_fails(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: Any) -> None:
        raise ValueError("a copy that nobody thought of")

    monkeypatch.setattr(f"preflight.monitor.collect.{part}.look", fail)
    with recorded() as kept:
        net = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        net(torch.randn(4, 3)).sum().backward()
        optimizer.step()
    assert len(kept.calls("step")) == 1
    assert "a copy that nobody thought of" in kept.table("trouble")[0]["error"]


def test_neither_contexts_that_are_switched_off_nor_those_of_an_evaluation_are_idle() -> None:
    with recorded() as kept:
        net = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        with torch.autocast("cpu", enabled=False):
            loss = net(torch.randn(4, 3)).sum()
        with torch.no_grad(), torch.autocast("cpu"):
            loss.detach().sum()
        loss.backward()
        optimizer.step()
    assert [row["args"]["casts_idle"] for row in kept.calls("step")] == [0]


def _step_once() -> dict[str, Any]:
    with recorded() as kept:
        net = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        net(torch.randn(4, 3)).sum().backward()
        optimizer.step()
    told: dict[str, Any] = kept.calls("step")[0]["args"]
    return told


@pytest.mark.parametrize(("steps", "exchanged", "told"), [(4, False, True), (4, True, False), (1, False, None)])
def test_a_step_tells_whether_accelerate_is_amidst_an_accumulation(
    monkeypatch: pytest.MonkeyPatch, steps: int, exchanged: bool, told: bool | None
) -> None:
    shared = {"plugin_kwargs": {"num_steps": steps}, "sync_gradients": exchanged}
    module: Any = types.ModuleType("accelerate.state")
    module.GradientState = type("GradientState", (), {"_shared_state": shared})
    monkeypatch.setitem(sys.modules, "accelerate.state", module)
    assert _step_once().get("accumulating") is told


def test_accelerate_still_keeps_its_accumulation_where_it_is_read() -> None:
    state = pytest.importorskip("accelerate.state")
    utils = pytest.importorskip("accelerate.utils")
    before = dict(state.GradientState._shared_state)
    try:
        found = state.GradientState(utils.GradientAccumulationPlugin(num_steps=3))
        found._set_sync_gradients(False)
        assert _step_once()["accumulating"] is True
    finally:
        state.GradientState._shared_state.clear()
        state.GradientState._shared_state.update(before)


def test_a_mode_that_a_library_sets_is_told_from_one_that_the_program_sets() -> None:
    library: dict[str, Any] = {"__name__": "library"}
    exec(compile("def load(net):\n    return net.eval()", "/x/site-packages/library.py", "exec"), library)
    with recorded() as kept:
        net = torch.nn.Sequential(torch.nn.Linear(3, 2))
        library["load"](net)
        net.eval()
    assert [row["args"] for row in kept.calls("mode")] == [
        {"training": False, "user": False},
        {"training": False, "user": True},
    ]


def test_a_scheduler_tells_whether_it_was_given_an_epoch() -> None:
    with recorded() as kept:
        net = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        steps = torch.optim.lr_scheduler.StepLR(optimizer, 2)
        net(torch.randn(4, 3)).sum().backward()
        optimizer.step()
        plateau.step(0.5)
        steps.step()
    assert [row["args"].get("given") for row in kept.calls("scheduler.step")] == [True, None]


def test_a_scheduler_tells_its_milestones_or_the_size_of_its_steps() -> None:
    with recorded() as kept:
        optimizer = torch.optim.SGD(torch.nn.Linear(3, 2).parameters(), lr=0.1)
        kinds = torch.optim.lr_scheduler
        made = [
            kinds.StepLR(optimizer, 0.001),
            kinds.MultiStepLR(optimizer, [0.5, 20]),
            kinds.ExponentialLR(optimizer, 0.9),
        ]
        optimizer.step()
        for one in made:
            one.step()
    told = [row["args"].get("moments") for row in kept.calls("scheduler.step")]
    assert [sorted(one) if one else one for one in told] == [[0.001], [0.5, 20], None]


@pytest.mark.parametrize("anew", [True, False])
def test_the_first_step_of_an_optimizer_tells_whether_other_weights_stand_in_their_place(anew: bool) -> None:
    with recorded() as kept:
        net = torch.nn.Linear(3, 2)
        for fold in range(2):
            if fold and anew:
                net = torch.nn.Linear(3, 2)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for _ in range(2):
                optimizer.zero_grad()
                net(torch.randn(4, 3)).sum().backward()
                optimizer.step()
    told = [row["args"].get("replaced", False) for row in kept.calls("step")]
    assert told == [False, False, anew, False]


def test_a_program_that_updates_by_itself_has_iterations_that_end() -> None:
    with recorded() as kept:
        weight = torch.randn(3, 2, requires_grad=True)
        for _ in range(100):
            weight.grad = None
            (torch.randn(4, 3) @ weight).pow(2).mean().backward()
            weight.data -= 0.1 * weight.grad
    windows = kept.windows()
    assert len(windows) > 5
    assert max(len(window.named("backward")) for window in windows) <= 16


def test_passes_before_the_first_step_of_an_optimizer_are_of_one_iteration() -> None:
    with recorded() as kept:
        weight = torch.randn(3, 2, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.1)
        for _ in range(40):
            (torch.randn(4, 3) @ weight).pow(2).mean().backward()
        optimizer.step()
    assert [len(window.named("backward")) for window in kept.windows()] == [40]


@pytest.mark.parametrize(("per_batch", "iterations"), [(4, 2), (40, 1 + 24)])
def test_a_batch_that_is_learnt_by_heart_is_no_endless_iteration(per_batch: int, iterations: int) -> None:
    """Several steps on a batch are one iteration; from the 17th on each is one."""
    torch.manual_seed(0)
    net = torch.nn.Linear(4, 2)
    data = torch.utils.data.TensorDataset(torch.randn(16, 4), torch.randint(0, 2, (16,)))
    with recorded() as kept:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        loader = iter(torch.utils.data.DataLoader(data, batch_size=8))
        for _ in range(2 if per_batch < 16 else 1):
            x, y = next(loader)
            for _ in range(per_batch):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(net(x), y).backward()
                optimizer.step()
    assert len(kept.windows()) == iterations


class _Halved(torch.autograd.Function):
    """A division that the graph does not show, as one within a compiled function is not."""

    @staticmethod
    def forward(ctx: Any, loss: Any) -> Any:
        return loss / 2

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0] / 2


@pytest.mark.parametrize(
    ("by_hand", "told"),
    [
        (None, True),
        (lambda loss: loss, False),
        (lambda loss: loss / 2, True),
        (lambda loss: loss / 2 + loss.square() / 2, True),
        (lambda loss: loss + 0.5 * loss.square(), False),
        (lambda loss: _Halved.apply(loss), True),
    ],
    ids=["accelerate", "as it is", "divided", "terms divided", "a term divided", "by a function of its own"],
)
def test_a_pass_tells_whether_accelerate_or_the_program_divides_its_loss(
    by_hand: Callable[[Any], Any] | None, told: bool
) -> None:
    accelerate = pytest.importorskip("accelerate")
    state = pytest.importorskip("accelerate.state")
    before = {
        kind: dict(kind._shared_state) for kind in (state.GradientState, state.AcceleratorState, state.PartialState)
    }
    try:
        accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
        net = torch.nn.Linear(3, 2)
        with recorded() as kept:
            loss = net(torch.randn(4, 3)).sum()
            if by_hand is not None:
                by_hand(loss).backward()
            else:
                accelerator.backward(loss)
        assert [row["args"]["divided"] for row in kept.calls("backward")] == [told]
    finally:
        for kind, shared in before.items():
            kind._shared_state.clear()
            kind._shared_state.update(shared)


class _Own(torch.optim.SGD):
    """An optimizer that reads a rate of its own."""


@pytest.mark.parametrize(
    ("kind", "rate", "told"),
    [(torch.optim.SGD, 0.5, ["lr"]), (torch.optim.SGD, 0.1, None), (_Own, 0.5, None)],
)
def test_a_step_tells_of_settings_that_its_optimizer_never_reads(
    kind: Any, rate: float, told: list[str] | None
) -> None:
    net = torch.nn.Linear(3, 2)
    optimizer = kind(net.parameters(), lr=0.1)
    optimizer.lr = rate
    with recorded() as kept:
        net(torch.randn(4, 3)).sum().backward()
        optimizer.step()
    assert kept.calls("step")[0]["args"].get("aside") == told


def test_a_rate_that_an_optimizer_was_made_with_may_be_kept_beside_the_groups() -> None:
    net = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    optimizer.lr = 0.1
    with recorded() as kept:
        for group in optimizer.param_groups:
            group["lr"] = optimizer.lr * 0.5
        net(torch.randn(4, 3)).sum().backward()
        optimizer.step()
    assert "aside" not in kept.calls("step")[0]["args"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([{"fix_lr": False}, {"fix_lr": True}], [1]),
        ([{"backbone": True}, {}], [0]),
        ([{"ours": True}, {"ours": True}], None),
        ([{"name": "trunk"}, {"name": "head"}], None),
        ([{"nesterov": False}, {"maximize": True}], None),
    ],
)
def test_a_step_tells_which_groups_the_program_has_marked(
    options: list[dict[str, Any]], told: list[int] | None
) -> None:
    """By options of its own; those of the optimizer are none."""
    with recorded() as kept:
        net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 2))
        groups = [{"params": part.parameters(), **more} for part, more in zip(net, options, strict=True)]
        optimizer = torch.optim.SGD(groups, lr=0.1)
        net(torch.randn(4, 3)).sum().backward()
        optimizer.step()
    assert [row["args"].get("marked") for row in kept.calls("step")] == [told]
