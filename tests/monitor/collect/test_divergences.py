"""What the recorder tells of divergences, and of clipping by a norm that the program has measured."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import Kept, recorded  # noqa: E402

from preflight.monitor.collect import clipping  # noqa: E402

pytestmark = pytest.mark.torch


def told(kept: Kept, name: str) -> list[float]:
    return [row["value"] for row in kept.table("scalar") if row["name"] == name]


@pytest.mark.parametrize("logarithms", [True, False])
def test_a_divergence_tells_whether_it_is_given_logarithms(logarithms: bool) -> None:
    with recorded() as kept:
        scores, target = torch.randn(8, 5, requires_grad=True), torch.randn(8, 5).softmax(1)
        given = scores.log_softmax(1) if logarithms else scores.softmax(1)
        torch.nn.KLDivLoss(reduction="batchmean")(given, target).backward()
    assert told(kept, "divergence.positive") == [0.0 if logarithms else 1.0]
    assert told(kept, "divergence.itself") == []


@pytest.mark.parametrize("log_target", [True, False])
@pytest.mark.parametrize("same", [True, False])
def test_a_divergence_of_nothing_that_is_trained_tells_whether_both_sides_are_equal(
    log_target: bool, same: bool
) -> None:
    with recorded() as kept:
        scores = torch.randn(8, 5)
        other = (scores if same else torch.randn(8, 5)).log_softmax(1)
        target = other if log_target else other.exp()
        torch.nn.functional.kl_div(scores.log_softmax(1), target, reduction="sum", log_target=log_target)
        with torch.no_grad():
            torch.nn.functional.kl_div(scores.log_softmax(1), target, reduction="sum", log_target=log_target)
        torch.ones(1, requires_grad=True).sum().backward()  # nothing is written of a program that does not train
    assert told(kept, "divergence.itself") == [float(same)]


@pytest.mark.parametrize("log_target", [True, False])
@pytest.mark.parametrize(
    ("over", "against", "crosswise"),
    [(1, 0, [1.0]), (0, 1, [1.0]), (1, 1, [0.0]), (0, 0, [0.0]), (1, None, [0.0]), (1, (0, 1), [0.0])],
)
def test_a_divergence_tells_whether_both_sides_are_distributions_over_one_axis(
    over: int, against: Any, crosswise: list[float], log_target: bool
) -> None:
    with recorded() as kept:
        scores, others = torch.randn(5, 5, requires_grad=True), torch.randn(5, 5)
        target = others.abs() if against is None else torch.eye(5) if against == (0, 1) else others.softmax(against)
        target = target.clamp_min(1e-30).log() if log_target else target
        torch.nn.functional.kl_div(scores.log_softmax(over), target, reduction="sum", log_target=log_target).backward()
    assert told(kept, "divergence.crosswise") == crosswise


def test_a_divergence_is_looked_at_a_few_times_only_and_gives_the_same() -> None:
    scores = torch.randn(8, 5).log_softmax(1)
    target = torch.randn(8, 5).softmax(1)
    plain = torch.nn.functional.kl_div(scores, target, reduction="sum")
    with recorded() as kept:
        values = [torch.nn.functional.kl_div(scores, target, reduction="sum") for _ in range(20)]
        torch.ones(1, requires_grad=True).sum().backward()
    assert 0 < len(told(kept, "divergence.positive")) < 20
    assert all(torch.equal(value, plain) for value in values)


def test_what_torch_warns_of_keeps_its_place() -> None:
    def places() -> list[tuple[str, int]]:
        with pytest.warns(UserWarning, match="batchmean") as warned:
            torch.nn.functional.kl_div(torch.zeros(4, 2), torch.full((4, 2), 0.5))
        return [(one.filename, one.lineno) for one in warned]

    plain = places()
    with recorded():
        assert places() == plain


def clipped(total: Any, lazily: bool) -> Kept:
    with recorded() as kept:
        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.ones(3, 4)).square().sum().backward()
        given = model.parameters() if lazily else list(model.parameters())
        torch.nn.utils.clip_grads_with_norm_(given, 0.5, total)
        optimizer.step()
    return kept


@pytest.mark.skipif(not hasattr(torch.nn.utils, "clip_grads_with_norm_"), reason="this torch clips by no given norm")
@pytest.mark.parametrize("lazily", [True, False])
def test_clipping_by_a_given_norm_tells_the_norm_and_what_is_covered(lazily: bool) -> None:
    kept = clipped(torch.tensor(3.0), lazily)
    (call,) = kept.calls("clip_grad_norm")
    assert {name: call["args"][name] for name in ("max_norm", "given", "parameters", "gradients")} == {
        "max_norm": 0.5,
        "given": True,
        "parameters": 2,
        "gradients": 2,
    }
    assert told(kept, "grad_norm") == [3.0]


@pytest.mark.parametrize("lend", [iter, lambda given: (one for one in given)])
@pytest.mark.parametrize("count", [0, 2])
def test_what_an_iterator_gives_is_clipped_and_told_as_torch_does_it(lend: Any, count: int) -> None:
    def clip() -> tuple[list[str], float]:
        given = [torch.ones(3, requires_grad=True) for _ in range(count)]
        for one in given[:1]:
            one.sum().backward()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            total = torch.nn.utils.clip_grad_norm_(lend(given), 0.5)
        return [str(one.message) for one in seen], total.item()

    plainly = clip()
    with recorded() as kept:
        torch.ones(1, requires_grad=True).sum().backward()
        assert clip() == plainly
    (call,) = kept.calls("clip_grad_norm")
    assert (call["args"]["parameters"], call["args"]["gradients"]) == (count, min(count, 1))


def test_what_is_no_leaf_has_no_gradient_to_clip_and_is_not_asked_for_it() -> None:
    leaf = torch.ones(3, requires_grad=True)
    leaf.sum().backward()
    assert clipping._with_gradients([leaf, torch.ones(3), 2 * leaf]) == 1
    assert clipping._with_gradients([leaf, None, torch.ones(3)]) == 1


def test_clipping_that_measures_by_itself_is_told_once() -> None:
    with recorded() as kept:
        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            model(torch.ones(3, 4)).square().sum().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
    first, second = kept.calls("clip_grad_norm")
    assert "given" not in first["args"]
    # Which parameters are an optimizer's is known from its first step on.
    assert [second["args"][word] for word in ("parameters", "gradients", "optimizers", "of")] == [2, 2, [0], [2]]
