"""What the recorder sees of training code, and that it leaves no trace of its own in it."""

from __future__ import annotations

import contextlib
import gc
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import Kept, recorded  # noqa: E402

pytestmark = pytest.mark.torch


class Net(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
        self.norm = torch.nn.BatchNorm1d(8)
        self.drop = torch.nn.Dropout(0.2)
        self.head = torch.nn.Linear(8, 2)

    def forward(self, x: Any) -> Any:
        return self.head(self.drop(self.norm(self.inner(x))))


def train(steps: int = 4, clip: bool = True) -> tuple[Any, list[float]]:
    torch.manual_seed(1)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    data = torch.utils.data.TensorDataset(torch.randn(8 * steps, 4), torch.randint(0, 2, (8 * steps,)))
    losses = []
    for x, y in torch.utils.data.DataLoader(data, batch_size=8, shuffle=True):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return net, losses


@pytest.fixture(scope="module")
def kept() -> Kept:
    with recorded() as kept:
        train()
    return kept


def test_the_recorder_had_no_trouble(kept: Kept) -> None:
    assert not kept.table("trouble")


def test_every_iteration_has_its_calls_in_order(kept: Kept) -> None:
    windows = kept.windows()
    # The last one holds the fetch that found nothing more.
    assert [len(window.named("step")) for window in windows] == [1, 1, 1, 1, 0]
    names = [call.name for call in windows[1].calls if call.name != "module"]
    assert names == ["fetch", "zero_grad", "forward", "backward", "clip_grad_norm", "step", "scheduler.step"]


def test_calls_name_the_persons_own_variables_and_lines(kept: Kept) -> None:
    step = kept.calls("step")[0]
    assert step["object"] == "optimizer0:Adam"
    assert step["place"].rsplit(":", 1)[0] == __file__
    assert kept.calls("forward")[0]["object"] == "net"
    assert {row["name"] for row in kept.table("variable")} >= {"net.head.weight", "net.norm.running_mean"}


def test_states_around_a_step_differ_and_between_steps_do_not(kept: Kept) -> None:
    before = [row for row in kept.table("state") if (row["moment"], row["what"]) == ("before_step", "parameter")]
    after = [row for row in kept.table("state") if (row["moment"], row["what"]) == ("after_step", "parameter")]
    assert len(before) == len(after) == 4
    for one, other in zip(before, after, strict=True):
        assert all(old != new for old, new in zip(one["bits"], other["bits"], strict=True))
    for one, other in zip(after, before[1:], strict=False):
        assert one["bits"] == other["bits"]


def test_numbers_of_the_training_are_there(kept: Kept) -> None:
    numbers = {row["name"] for row in kept.table("scalar")}
    assert {"loss", "lr", "grad_norm"} <= numbers


def test_numbers_are_named_by_their_line_wherever_the_program_lies(kept: Kept) -> None:
    objects = {row["object"].rsplit(":", 1)[0] for row in kept.table("scalar") if row["name"] in ("loss", "grad_norm")}
    (one,) = objects
    assert one
    assert not Path(one).is_absolute()
    assert Path(__file__).as_posix().endswith(one)


def test_batches_have_indices_and_fingerprints(kept: Kept) -> None:
    batches = [row for row in kept.table("batch") if row["loader"] == "loader0"]
    assert len(batches) == 4
    seen = [index for row in batches for index in row["indices"]]
    assert sorted(seen) == list(range(32))
    assert len({tuple(row["bits"]) for row in batches}) == 4


def test_training_is_the_same_bit_by_bit() -> None:
    plain, losses = train()
    plain_state = torch.random.get_rng_state()
    with recorded():
        watched, watched_losses = train()
    assert losses == watched_losses
    assert torch.equal(plain_state, torch.random.get_rng_state())
    for one, other in zip(plain.state_dict().values(), watched.state_dict().values(), strict=True):
        assert torch.equal(one, other)


def test_every_hook_is_gone_afterwards() -> None:
    before = (torch.autograd.backward, torch.optim.Optimizer.zero_grad, torch.nn.utils.clip_grad_norm_, torch.save)
    hooks = dict(torch.nn.modules.module._global_forward_hooks)
    with recorded():
        assert torch.autograd.backward is not before[0]
    now = (torch.autograd.backward, torch.optim.Optimizer.zero_grad, torch.nn.utils.clip_grad_norm_, torch.save)
    assert now == before
    assert dict(torch.nn.modules.module._global_forward_hooks) == hooks


def test_nothing_is_kept_alive() -> None:
    with recorded():
        net, _ = train()
        known = weakref.ref(net)
        weight = weakref.ref(net.head.weight)
        del net
        gc.collect()
        assert known() is None
        assert weight() is None


@pytest.mark.parametrize("detail", [0, 1])
def test_a_forward_pass_that_raised_keeps_no_model_alive_and_hides_no_other(detail: int) -> None:
    def fail() -> Any:
        failing = Net()
        with contextlib.suppress(RuntimeError):
            failing(torch.randn(2, 5))
        return weakref.ref(failing)

    with recorded(detail_first=detail) as kept:
        known = fail()
        gc.collect()
        assert known() is None
        after = Net()
        after(torch.randn(2, 4))
    assert [call["object"] for call in kept.calls("forward")] == ["after"]
    assert not kept.table("trouble")


def test_a_pass_of_a_model_that_holds_nothing_is_a_rehearsal_and_is_not_told() -> None:
    with recorded(detail_every=1) as kept:
        net = Net().to("meta")
        net(torch.randn(2, 4, device="meta"))
    assert not kept.calls("forward")
    assert not kept.table("tensor")
    assert not kept.table("trouble")


def test_an_exception_of_the_program_is_its_own() -> None:
    with recorded() as kept:
        net = Net()
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            net(torch.randn(2, 5))
        assert net.eval()(torch.randn(2, 4)).shape == (2, 2)
    assert not kept.table("trouble")


def test_a_compiled_model_is_not_broken_into_pieces_and_warns_of_nothing() -> None:
    with recorded() as kept:
        net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
        compiled = torch.compile(net, backend="eager", fullgraph=True)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            compiled(torch.randn(2, 4)).sum().backward()
            optimizer.step()
    assert len(kept.calls("step")) == 3
    assert len(kept.calls("forward")) == 3
    assert not kept.table("trouble")


def test_closures_and_several_optimizers_are_told_apart() -> None:
    with recorded() as kept:
        one, two = torch.nn.Linear(3, 3), torch.nn.Linear(3, 1)
        first = torch.optim.LBFGS(one.parameters(), max_iter=2)
        second = torch.optim.SGD(two.parameters(), lr=0.1)
        x = torch.randn(5, 3)

        def closure() -> Any:
            first.zero_grad()
            loss = two(one(x)).pow(2).mean()
            loss.backward()
            return loss

        for _ in range(2):
            first.step(closure)
            second.zero_grad()
            two(one(x).detach()).pow(2).mean().backward()
            second.step()
    steps = kept.calls("step")
    assert [row["object"] for row in steps] == ["optimizer0:LBFGS", "optimizer1:SGD"] * 2
    assert [row["args"]["closure"] for row in steps] == [True, False] * 2
    names = {row["name"]: row["optimizer"] for row in kept.table("variable")}
    assert names["one.weight"] == 0
    assert names["two.weight"] == 1


def test_a_step_that_the_scaler_skips_is_told() -> None:
    with recorded() as kept:
        net = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        for value in (1.0, float("inf"), 1.0):
            optimizer.zero_grad()
            scaler.scale((net(torch.ones(2, 3)) * value).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
    assert [row["result"]["skipped"] for row in kept.calls("scaler.step")] == [False, True, False]


def test_calls_of_torch_are_seen_when_asked_for_and_change_nothing() -> None:
    _, plain = train(3)
    before = torch.nn.functional.linear
    with recorded(api=True) as kept:
        _, watched = train(3)
    assert watched == plain
    assert torch.nn.functional.linear is before
    calls = kept.calls("api.torch.nn.functional.linear")
    assert len(calls) == 6
    assert calls[0]["args"]["in"][0] == ["float32", [8, 4]]
    assert calls[0]["result"]["out"] == [["float32", [8, 8]]]


def test_only_what_is_needed_is_recorded() -> None:
    with recorded(needs=("step", "zero_grad")) as kept:
        train(3)
    assert set(kept.rows) <= {"begin", "call", "variable", "iteration", "memory", "scalar", "settings", "end"}
    assert not kept.calls("module")
    assert len(kept.calls("step")) == 3


def test_a_step_within_another_optimizers_step_is_not_one_of_its_own() -> None:
    class Wrapping(torch.optim.Optimizer):  # type: ignore[misc]
        def __init__(self, parameters: Any) -> None:
            super().__init__(parameters, {"lr": 0.1})
            self.held = torch.optim.SGD(self.param_groups, lr=0.1)

        def step(self, closure: Any = None) -> None:
            self.held.step()

    with recorded() as kept:
        net = torch.nn.Linear(2, 1)
        optimizer = Wrapping(net.parameters())
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(1, 2)).sum().backward()
            optimizer.step()
    assert [row["object"] for row in kept.calls("step")] == ["optimizer0:Wrapping"] * 2


def test_a_wrapper_that_shows_an_optimizers_groups_as_its_own_has_its_number() -> None:
    class Shown(torch.optim.Optimizer):  # type: ignore[misc]
        def __init__(self, held: Any) -> None:
            self.held = held
            self.param_groups, self.state, self.defaults = held.param_groups, held.state, held.defaults

        def step(self, closure: Any = None) -> None:
            self.held.step()

    with recorded() as kept:
        net = torch.nn.Linear(2, 1)
        wrapper = Shown(torch.optim.SGD(net.parameters(), lr=0.1))
        for _ in range(2):
            wrapper.zero_grad()
            net(torch.ones(1, 2)).sum().backward()
            wrapper.held.step()
    assert {row["object"].split(":")[0] for row in kept.calls() if row["name"] in ("step", "zero_grad")} == {
        "optimizer0"
    }


def test_the_first_step_tells_what_was_frozen_while_its_optimizer_was_made() -> None:
    with recorded() as kept:
        net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
        net[0].requires_grad_(False)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        net[0].weight.requires_grad_(True)
        for _ in range(2):
            net(torch.ones(1, 2)).sum().backward()
            optimizer.step()
    first, second = kept.calls("step")
    names = {row["id"]: row["name"] for row in kept.table("variable")}
    assert [names[ident] for ident in first["args"]["thawed"]] == ["net.0.weight"]
    assert first["args"]["still_frozen"] == 1
    assert "thawed" not in second["args"]


def replaced(net: Any) -> None:
    net.head.weight = torch.nn.Parameter(torch.zeros(2, 8))


def tied(net: Any) -> None:
    net.head.bias = net.norm.bias


def added(net: Any) -> None:
    net.more = torch.nn.Linear(2, 2)


def held(net: Any) -> None:
    net.register_buffer("seen", torch.zeros(3))


def frozen(net: Any) -> None:
    net.head.weight.requires_grad_(False)


def made_finer(net: Any) -> None:
    net.double()


@pytest.mark.parametrize("change", [replaced, tied, added, held, frozen, made_finer])
def test_a_model_that_changes_between_steps_is_looked_at_again(change: Any) -> None:
    def step(net: Any, optimizer: Any) -> None:
        optimizer.zero_grad()
        net(torch.randn(4, 4, dtype=net.head.bias.dtype)).sum().backward()
        optimizer.step()

    with recorded(detail_every=1) as kept:
        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        step(net, optimizer)
        before = len(kept.table("variable"))
        step(net, optimizer)
        assert len(kept.table("variable")) == before
        if change is tied:
            net.head = torch.nn.Linear(8, 8)
            step(net, optimizer)
            before = len(kept.table("variable"))
        change(net)
        step(net, optimizer)
    assert len(kept.table("variable")) > before
    assert not kept.table("trouble")


def test_a_program_is_recorded_whose_folder_was_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> str:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr("os.getcwd", gone)
    with recorded() as kept:
        monkeypatch.undo()
        train(1)
    assert [row["directory"] for row in kept.table("begin")] == [""]
    assert kept.calls("step")
