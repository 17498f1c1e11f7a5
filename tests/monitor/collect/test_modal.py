"""What the recorder tells of modes, cast copies of weights, schedules and checkpoints."""

from __future__ import annotations

import contextlib
import functools
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import recorded  # noqa: E402

from preflight.monitor.collect import modal  # noqa: E402

pytestmark = pytest.mark.torch


def built() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5))


def test_a_root_tells_whether_its_class_comes_from_a_library() -> None:
    for module, told in (("pytest", True), (__name__, None), ("no_module_at_all", None)):
        with recorded() as kept:
            model = type("Net", (torch.nn.Linear,), {"__module__": module})(4, 4)
            model(torch.randn(3, 4))
        assert [call["args"].get("library") for call in kept.calls("root")] == [told]
    with recorded() as kept:
        built()(torch.randn(3, 4))
    assert "library" not in kept.calls("root")[0]["args"], "torch's own classes are nobody's model"


def test_a_root_tells_its_parts_with_a_mode_once_and_how_many_are_on_each_time() -> None:
    with recorded() as kept:
        model = built()
        model(torch.randn(3, 4))
        model[1].momentum = 0.0
        model(torch.randn(3, 4))
        model.eval()
        model(torch.randn(3, 4))
    (root,) = kept.calls("root")
    assert (root["args"]["dropout"], root["args"]["norm"]) == (["model.2"], ["model.1"])
    told = [(call["args"]["dropout"], call["args"]["norm"]) for call in kept.calls("forward")]
    assert told == [(1, 1), (1, 0), (0, 0)]


def test_train_tells_of_layers_with_statistics_that_were_put_into_evaluation_by_themselves() -> None:
    with recorded() as kept:
        model = torch.nn.Sequential(built(), built())
        model[0][1].eval()
        model.train()
        model.train()  # now they are not
        model[1].eval()  # a part as a whole
        model.train()
        model[0][2].eval()  # a layer that only drops
        model.train()
        model.eval()
        model.train()
    told = [call["args"].get("resting") for call in kept.calls("mode") if call["args"]["training"]]
    assert told == [1, None, None, None, None]


def test_a_class_of_the_program_tells_the_layer_it_is_made_from() -> None:
    class Own(torch.nn.Linear):  # type: ignore[misc]
        pass

    with recorded() as kept:
        model = torch.nn.Sequential(Own(4, 4), torch.nn.Linear(4, 4))
        model(torch.randn(3, 4))
    assert [call["args"].get("base") for call in kept.calls("module")] == ["Linear", None]


@pytest.mark.parametrize("around", [None, True, False])
def test_a_step_tells_whether_cast_copies_live_on(around: bool | None) -> None:
    with recorded() as kept:
        model = torch.nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        # An outer context keeps the copies even where it is switched off: it counts as the outermost one.
        with contextlib.nullcontext() if around is None else torch.autocast("cpu", torch.bfloat16, enabled=around):
            for _ in range(3):
                with torch.autocast("cpu", torch.bfloat16):
                    model(torch.randn(3, 4)).float().sum().backward()
                    optimizer.step()
    told = [call["args"]["casts_kept"] for call in kept.calls("step")]
    assert told == [False, *[around is not None] * 2]


def _falls(count: int, *, num_training_steps: int) -> float:
    return max(0.0, 1 - count / num_training_steps)


def test_a_schedule_of_a_function_tells_the_steps_that_it_was_made_for() -> None:
    with recorded() as kept:
        model = built()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        rates = functools.partial(_falls, num_training_steps=9)
        for function in (rates, lambda count: 0.5**count):
            schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, function)
            model(torch.randn(3, 4)).sum().backward()
            optimizer.step()
            schedule.step()
    assert [call["args"].get("total") for call in kept.calls("scheduler.step")] == [9, None]


def test_saving_and_loading_tell_what_went_where(tmp_path: Path) -> None:
    with recorded() as kept:
        model = built()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 7)
        model(torch.randn(3, 4)).sum().backward()
        optimizer.step()
        schedule.step()
        whole = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict()}
        torch.save(whole, tmp_path / "last.pt")
        loaded = torch.load(tmp_path / "last.pt")
        model.load_state_dict(model.state_dict())
        model.load_state_dict(loaded["model"])
        optimizer.load_state_dict(loaded["optimizer"])
        schedule.load_state_dict(loaded["schedule"])
    itself, fresh, restored, again = (call["args"] for call in kept.calls("load_state_dict"))
    assert (itself["itself"], fresh["itself"], itself["matched"]) == (7, 0, 7)
    assert restored["state"] == 4
    assert restored["rates"] == [optimizer.param_groups[0]["lr"]]
    advance = kept.calls("scheduler.step")[0]["args"]
    assert restored["first"] == [0.1] == advance["base"] == advance["made"]
    assert (again["count"], again["optimizer"]) == (1, "optimizer0:SGD")
    assert kept.calls("scheduler.step")[0]["args"]["horizon"] == 7
    states = {(row["moment"], row["what"]): row for row in kept.table("state")}
    file = states["saved", "file"]
    assert (file["extra"]["under"], file["extra"]["missing"], file["extra"]["alias"]) == ("model", [], 7)
    assert states["saved", "optimizer"]["bits"]
    assert states["saved", "optimizer"]["bits"] == states["loaded", "optimizer"]["bits"]
    assert states["saved", "parameter"]["bits"]
    assert states["saved", "parameter"]["bits"] == states["loaded", "parameter"]["bits"]


def stepped(model: Any = None, times: int = 6) -> Any:
    model = built() if model is None else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(times):
        optimizer.zero_grad()
        model(torch.randn(3, 4)).sum().backward()
        optimizer.step()
    return model.eval()


def untouched(kept: Any) -> list[int | None]:
    return [call["args"].get("untouched") for call in kept.calls("forward") if not call["args"]["training"]]


def test_statistics_that_were_never_followed_are_told_a_few_times() -> None:
    with recorded() as kept:
        model = stepped()
        model(torch.randn(3, 4))
        model[1].running_mean, model[1].running_var = torch.zeros(4), torch.ones(4)
        for _ in range(6):
            model(torch.randn(3, 4))
    assert untouched(kept) == [0, 1, 1, 1, 1, 1, None]
    assert not kept.table("trouble")


def test_statistics_of_a_layer_that_no_pass_comes_through_are_not_told() -> None:
    class Holding(torch.nn.Sequential):
        def forward(self, value: Any) -> Any:
            return self[0](value)

    with recorded() as kept:
        model = stepped(Holding(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)))
        model(torch.randn(3, 4))
        model[1].requires_grad_(False)
        model(torch.randn(3, 4))
    assert untouched(kept) == [0, 1], "one that is frozen is not trained either, and may well be called"


@pytest.mark.parametrize(("follows", "told"), [(True, 1), (False, None)])
def test_statistics_of_an_average_that_is_written_past_what_torch_counts_are_told(
    follows: bool, told: int | None
) -> None:
    """A network whose shifts were drawn at random, and beside which none is trained, is no average."""
    with recorded() as kept:
        model = stepped()
        if not follows:
            model[1].reset_running_stats()
        average = built().eval()
        for slow, fast in zip(average.parameters(), model.parameters(), strict=True):
            slow.data.copy_(fast.data)
        average(torch.randn(3, 4))
        fixed = built().eval()
        fixed(torch.randn(3, 4))
    assert untouched(kept) == [told, None]
    assert not kept.table("trouble")


def test_statistics_are_not_read_while_nothing_may_be_computed(monkeypatch: Any) -> None:
    with recorded() as kept:
        model = stepped()
        model[1].running_mean, model[1].running_var = torch.zeros(4), torch.ones(4)
        monkeypatch.setattr(modal, "impossible", lambda torch: True)
        for _ in range(9):
            model(torch.randn(3, 4))
        monkeypatch.setattr(modal, "impossible", lambda torch: False)
        model(torch.randn(3, 4))
    assert untouched(kept) == [None] * 9 + [1], "what could not be looked at is no look"


def test_a_forward_pass_is_told_where_its_statistics_cannot_be_read(monkeypatch: Any) -> None:
    def refuse(module: Any) -> bool:
        raise RuntimeError

    with recorded() as kept:
        model = stepped()
        with torch.inference_mode():
            inferring = built()
            inferring.eval()(torch.randn(3, 4))
        assert not kept.table("trouble")
        monkeypatch.setattr(modal, "_written", refuse)
        model(torch.randn(3, 4))
    assert [call["object"] for call in kept.calls("forward")][-2:] == ["inferring", "model"]
    assert [row["where"] for row in kept.table("trouble")] == ["statistics"]


def test_a_model_that_is_given_its_batch_by_name_is_recorded_without_a_fault() -> None:
    class ByName(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def forward(self, *, inputs: Any) -> Any:
            return self.layer(inputs)

    with recorded() as kept:
        model = ByName()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            model(inputs=torch.randn(3, 4)).sum().backward()
            optimizer.step()
    assert len(kept.calls("forward")) == 2
    assert kept.table("trouble") == []


class Attending(torch.nn.Module):  # type: ignore[misc]
    """Attention that drops at its rate, or as its mode says."""

    def __init__(self, follows: bool) -> None:
        super().__init__()
        self.follows = follows
        self.proj = torch.nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        rate = 0.2 if self.training or not self.follows else 0.0
        hidden = self.proj(x)[:, None]
        return torch.nn.functional.scaled_dot_product_attention(hidden, hidden, hidden, dropout_p=rate)


def test_fused_attention_that_drops_in_evaluation_is_told_and_stands_in_its_place_again() -> None:
    functional = torch.nn.functional
    original = functional.scaled_dot_product_attention
    for follows in (True, False):
        with recorded() as kept:
            model = Attending(follows)
            for training in (True, False):
                model.train(training)(torch.randn(2, 3, 4))
                assert functional.scaled_dot_product_attention is original
        assert [call["args"]["function"] for call in kept.calls("dropout")] == (
            [] if follows else ["scaled_dot_product_attention"]
        )


def test_a_tensor_that_answers_for_itself_finds_fused_attention_where_it_knows_it() -> None:
    from torch.nn.attention.bias import causal_lower_right

    class Biased(Attending):
        def forward(self, x: Any) -> Any:
            hidden = self.proj(x)[:, None]
            bias = causal_lower_right(3, 3)
            return torch.nn.functional.scaled_dot_product_attention(hidden, hidden, hidden, attn_mask=bias)

    model, x = Biased(True).eval(), torch.randn(2, 3, 4)
    with torch.no_grad():
        alone = model(x)
        with recorded():
            assert torch.equal(model(x), alone)


class OwnNorm(torch.nn.Module):  # type: ignore[misc]
    """A normalisation written by hand, which keeps its statistics or a copy of them."""

    def __init__(self, keeps: bool) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))
        self.register_buffer("running_mean", torch.zeros(4))
        self.register_buffer("running_var", torch.ones(4))
        self.keeps = keeps

    def forward(self, x: Any) -> Any:
        held = (self.running_mean, self.running_var)
        mean, var = held if self.keeps else [one.clone() for one in held]
        return torch.nn.functional.batch_norm(x, mean, var, self.weight, None, self.training)


@pytest.mark.parametrize("keeps", [True, False])
def test_own_layers_tell_whether_they_follow_their_statistics(keeps: bool) -> None:
    with recorded() as kept:
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), OwnNorm(keeps))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(4):
            model(torch.randn(6, 4) + 1).pow(2).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert not kept.table("trouble")
    told = [(call["args"].get("own"), call["args"].get("unfollowed")) for call in kept.calls("forward")]
    assert told == [(None, None)] * 2 + [(1, 0 if keeps else 1)] * 2


def test_the_root_of_a_replica_tells_the_class_that_it_is_one_of(tmp_path: Path) -> None:
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        with recorded() as kept:
            model = torch.nn.parallel.DistributedDataParallel(built())
            model(torch.randn(3, 4))
    finally:
        torch.distributed.destroy_process_group()
    (told,) = [row["args"] for row in kept.calls("root")]
    assert (told["type"], told["inner"]) == ("DistributedDataParallel", "Sequential")
