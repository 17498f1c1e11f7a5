"""The end of a loss's graph is told once for each place and kind, and dropout in evaluation is noticed."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from tests.monitor.collect.recording import recorded  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from preflight.monitor.collect.tail import Tails  # noqa: E402
from preflight.monitor.collect.unpacking import saved_tensors_tell  # noqa: E402
from preflight.monitor.relations.loss_input_fits import misfit  # noqa: E402
from preflight.monitor.views.tails import Tail  # noqa: E402


def kinds(loss: Any) -> list[str]:
    tail = Tail(Tails().of("here", loss) or [])
    return [one.kind for node in tail.nodes if (one := misfit(tail, node)) is not None]


def scores(classes: int = 4) -> Any:
    return nn.Linear(5, classes)(torch.randn(8, 5))


LABELS = torch.arange(8) % 4


def test_losses_that_are_given_what_they_expect_have_no_misfit() -> None:
    assert kinds(functional.cross_entropy(scores(), LABELS)) == []
    assert kinds(functional.cross_entropy(scores(), LABELS, label_smoothing=0.1)) == []
    assert kinds(functional.nll_loss(scores().log_softmax(1), LABELS)) == []
    assert kinds(functional.nll_loss(scores().softmax(1).log(), LABELS)) == []
    assert kinds(functional.mse_loss(scores().softmax(1), torch.rand(8, 4))) == []
    assert kinds(functional.binary_cross_entropy(scores().sigmoid(), torch.rand(8, 4))) == []
    assert kinds(functional.binary_cross_entropy_with_logits(scores(), torch.rand(8, 4))) == []
    assert kinds(-torch.distributions.Categorical(logits=scores()).log_prob(LABELS).mean()) == []
    assert kinds(-torch.distributions.Categorical(probs=scores().softmax(1)).log_prob(LABELS).mean()) == []
    pictures = nn.Conv2d(3, 4, 3)(torch.randn(2, 3, 6, 6))
    assert kinds(functional.cross_entropy(pictures, torch.zeros(2, 4, 4, dtype=torch.int64))) == []


def test_a_last_batch_of_one_sample_is_no_single_class() -> None:
    for batch in (1, 3):
        one, other = nn.Linear(5, 4)(torch.randn(batch, 5)), nn.Linear(5, 4)(torch.randn(batch, 5))
        assert kinds(functional.cross_entropy(one @ other.T, torch.arange(batch))) == []
    assert kinds(functional.cross_entropy(scores(1), torch.zeros(8, dtype=torch.int64))) == ["one class"]


def test_what_a_loss_applies_itself_and_what_it_lacks_is_told() -> None:
    assert kinds(functional.cross_entropy(scores().softmax(1), LABELS)) == ["twice"]
    assert kinds(functional.cross_entropy(scores().view(2, 4, 4).softmax(2).flatten(0, 1), LABELS)) == ["twice"]
    assert kinds(functional.cross_entropy(scores().sigmoid(), LABELS)) == ["twice"]
    assert kinds(functional.binary_cross_entropy_with_logits(scores().sigmoid(), torch.rand(8, 4))) == ["twice"]
    assert kinds(functional.nll_loss(scores(), LABELS)) == ["no logarithm"]
    assert kinds(functional.nll_loss(scores().softmax(1), LABELS)) == ["no logarithm"]
    assert kinds(functional.nll_loss(scores().log_softmax(0), LABELS)) == ["dimension"]
    assert kinds(functional.mse_loss(scores(1).softmax(1), torch.rand(8, 1))) == ["one class"]
    assert kinds(-torch.distributions.Categorical(logits=scores().softmax(1)).log_prob(LABELS).mean()) == ["twice"]


def test_scores_that_went_through_dropout_are_told_and_other_products_are_not() -> None:
    torch.manual_seed(0)
    drop = nn.Dropout(0.3)
    labels = torch.randint(0, 2, (8, 4)).float()
    assert kinds(functional.cross_entropy(drop(scores()), LABELS)) == ["dropped"]
    assert kinds(functional.binary_cross_entropy_with_logits(drop(scores()), labels)) == ["dropped"]
    assert kinds(functional.cross_entropy(nn.Dropout2d(0.5)(scores().view(8, 4, 1, 1)).flatten(1), LABELS)) == [
        "dropped"
    ]
    assert kinds(functional.cross_entropy(drop.eval()(scores()), LABELS)) == []
    drop.train()
    assert kinds(functional.cross_entropy(scores() + drop(scores()), LABELS)) == []  # a branch beside another one
    assert kinds(functional.cross_entropy(nn.Linear(4, 4)(drop(scores())), LABELS)) == []
    assert kinds(functional.kl_div(drop(scores()).log_softmax(1), labels, reduction="batchmean")) == []
    assert kinds(functional.mse_loss(drop(scores()), labels)) == []
    few = torch.zeros(8, 4)
    few[:, :2] = 10.0  # half of them at a scale that would keep one in ten
    for mask in (torch.randint(0, 2, (8, 4)).float(), few, torch.full((8, 4), 2.0), torch.tensor(3.0), labels - 0.5):
        assert kinds(functional.cross_entropy(scores() * mask, LABELS)) == []


@pytest.mark.parametrize("hooked", [False, True] if saved_tensors_tell() else [False])
def test_masks_of_dropout_are_read_unless_the_program_hooked_them(hooked: bool) -> None:
    torch.manual_seed(0)
    read: list[Any] = []

    def unpacked(kept: Any) -> Any:
        read.append(kept)
        return kept

    if hooked:
        with torch.autograd.graph.saved_tensors_hooks(lambda given: given, unpacked):
            loss = functional.cross_entropy(nn.Dropout(0.5)(scores()), LABELS)
    else:
        loss = functional.cross_entropy(nn.Dropout(0.5)(scores()), LABELS)
    assert kinds(loss) == ([] if hooked else ["dropped"])
    assert not read


def test_the_same_end_is_told_once_and_keeps_nothing() -> None:
    tails = Tails()
    assert tails.of("a:1", functional.cross_entropy(scores(), LABELS))
    assert tails.of("a:1", functional.cross_entropy(scores(), LABELS)) is None
    assert tails.of("a:1", functional.mse_loss(scores(), torch.rand(8, 4)))
    assert tails.of("a:2", torch.tensor(1.0)) is None
    for _ in range(10):
        tails.of("a:3", scores().sum())
    assert tails.of("a:3", scores().mean()) is None, "it is looked at a few times only"


class Dropping(nn.Module):
    def __init__(self, **how: Any) -> None:
        super().__init__()
        self.weight = nn.Linear(4, 4)
        self.how = how

    def forward(self, x: Any) -> Any:
        return functional.dropout(self.weight(x), **self.how)


def told(model: nn.Module) -> list[str]:
    with recorded() as kept:
        for _ in range(3):
            model.train()
            model(torch.randn(2, 4)).sum().backward()
            model.eval()
            with torch.no_grad():
                model(torch.randn(2, 4))
    assert not kept.table("trouble")
    return [call["object"] for call in kept.calls("dropout")]


def test_dropout_in_evaluation_is_noticed_once_unless_it_is_meant() -> None:
    assert len(told(Dropping(p=0.5))) == 1
    assert told(Dropping(p=0.0)) == []
    assert told(Dropping(p=0.5, training=True)) == []
    assert told(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))) == []


def test_scripts_and_compiled_functions_see_the_original_dropout() -> None:
    def attended(x: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(x, x, functional.dropout(x, 0.5, False))

    x = torch.randn(1, 3, 4)
    with recorded() as kept:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            scripted = torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)))
            assert torch.equal(torch.jit.script(attended)(x), attended(x))
        compiled = torch.compile(attended, backend="eager", fullgraph=True)
        assert torch.equal(compiled(x), attended(x))
        assert scripted(x).shape == x.shape
    assert not kept.table("trouble")
    assert torch.nn.functional.dropout.__module__ == "torch.nn.functional"
    assert not hasattr(torch.nn.functional.dropout, "__prepare_scriptable__"), "the original is back"


def test_attention_stays_the_function_that_tensors_of_their_own_kind_know() -> None:
    class Knowing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function is functional.scaled_dot_product_attention:
                return "its own"
            return super().__torch_function__(function, types, args, kwargs or {})

    original = functional.scaled_dot_product_attention
    x = torch.randn(1, 3, 4)
    with recorded():
        assert functional.scaled_dot_product_attention is original
        assert original(x, x, x.as_subclass(Knowing), dropout_p=0.5) == "its own"


@pytest.mark.skipif(not hasattr(scores().grad_fn, "_input_metadata"), reason="this torch tells no shapes of a graph")
@pytest.mark.parametrize(("shape", "told"), [((8, 1), [[8, 1]]), ((8, 8), [[8, 8]]), ((8,), [])])
def test_a_product_that_stretches_tells_the_shape_of_its_constant(shape: tuple[int, ...], told: list[Any]) -> None:
    losses = functional.cross_entropy(scores(), LABELS, reduction="none")
    for loss in ((losses * torch.rand(shape)).mean(), (torch.rand(shape) * losses).mean()):
        product = Tails().of("here", loss)[1]
        assert (product[0], product[4:]) == ("Mul", told)


@pytest.mark.skipif(not saved_tensors_tell(), reason="this torch tells nothing of hooks on what is saved")
def test_what_stands_packed_is_not_unpacked_for_its_shape() -> None:
    def unpack(packed: Any) -> Any:
        raise AssertionError

    losses = functional.cross_entropy(scores(), LABELS, reduction="none")
    with torch.autograd.graph.saved_tensors_hooks(lambda held: held, unpack):
        loss = (losses * torch.rand(8, 1)).mean()
    assert Tails().of("here", loss)[1][4:] == [None]
