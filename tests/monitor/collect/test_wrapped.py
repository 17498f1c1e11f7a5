"""What the recorder looks at in losses, samples, averages and positions changes nothing where torch compiles or wraps.

One training has all of it: tokens with a table of positions, a ratio to an earlier policy, labels that are smoothed by
hand, a divergence, an average kept as sums, and stored samples that are scaled where they lie.
The same training without the recorder comes first in each test: what fails there is not the recorder's doing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from recording import Kept, recorded  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.slow]
F, nn = torch.nn.functional, torch.nn
WORDS, LENGTH, WIDTH, STEPS = 11, 6, 16, 7


class Policy(nn.Module):  # type: ignore[misc]
    """Tokens and their positions to scores of words and a value."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 32), nn.Linear(32, WIDTH)
        self.drop = nn.Dropout(0.1)
        self.scores, self.value = nn.Linear(WIDTH, WORDS), nn.Linear(WIDTH, 1)

    def forward(self, tokens: Any) -> Any:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        x = x + self.drop(self.down(torch.relu(self.up(x))))
        return self.scores(x).clone(), self.value(x).sum(-1)  # FSDP warns of an output that is a view


class Stored(torch.utils.data.Dataset):  # type: ignore[misc]
    def __init__(self) -> None:
        self.features, self.tokens = torch.randn(40, 3), torch.randint(0, WORDS, (40, LENGTH))

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> Any:
        return self.tokens[index], self.features[index]


def loss_of(scores: Any, values: Any, tokens: Any, before: Any) -> Any:
    """A sum of a clipped ratio, a smoothed cross entropy, a divergence and an error of values."""
    told = scores.log_softmax(-1)
    chosen = told.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    ratio = (chosen - before.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)).exp()
    gain = torch.minimum(ratio, ratio.clamp(0.8, 1.2)).mean()
    smooth = F.one_hot(tokens, WORDS).float() * 0.9 + 0.1 / WORDS
    entropy = -(smooth * told).sum(-1).mean()
    apart = F.kl_div(told, before.exp(), reduction="batchmean")
    return entropy - 0.1 * gain + 0.01 * apart + 0.5 * F.mse_loss(values, tokens.float() / WORDS)


def whole(model: Any) -> list[Any]:
    return [one.full_tensor() if hasattr(one, "full_tensor") else one for one in model.parameters()]


def trained(wrap: Callable[[Any], Any], loss: Callable[..., Any] = loss_of) -> list[Any]:
    """Losses of some steps, and the weights and their average after them."""
    torch.manual_seed(0)
    data, model = Stored(), Policy()
    run = wrap(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    average = {name: one.detach().clone() for name, one in model.named_parameters()}
    loader = torch.utils.data.DataLoader(data, 8, shuffle=True)
    told: list[Any] = []
    while len(told) < STEPS:
        for tokens, _ in loader:
            with torch.no_grad():
                before = run(tokens)[0].log_softmax(-1)
            for _ in range(2):
                optimizer.zero_grad()
                found = loss(*run(tokens), tokens, before)
                found.backward()
                nn.utils.clip_grad_norm_([one for one in model.parameters() if not hasattr(one, "full_tensor")], 1.0)
                optimizer.step()
            average = {name: 0.9 * average[name] + 0.1 * one.detach() for name, one in model.named_parameters()}
            told.append(found.detach().clone())
        data.features.mul_(0.5)
    return [
        *told,
        *whole(model),
        *(one.full_tensor() if hasattr(one, "full_tensor") else one for one in average.values()),
    ]


def compiled(fullgraph: bool) -> Callable[[Any], Any]:
    return lambda model: torch.compile(model, backend="aot_eager", fullgraph=fullgraph)


def functional(model: Any) -> Any:
    """The model as a function of its weights, run for each sample by itself."""

    def one(weights: Any, tokens: Any) -> Any:
        scores, values = torch.func.functional_call(model, weights, (tokens.unsqueeze(0),))
        return scores.squeeze(0), values.squeeze(0)

    return lambda tokens: torch.func.vmap(one, in_dims=(None, 0), randomness="different")(
        dict(model.named_parameters()), tokens
    )


def sharded(model: Any) -> Any:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    return fully_shard(model, mesh=init_device_mesh("cpu", (1,)))


def split(model: Any) -> Any:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    return parallelize_module(
        model, init_device_mesh("cpu", (1,)), {"up": ColwiseParallel(), "down": RowwiseParallel()}
    )


@pytest.fixture
def group() -> Iterator[None]:
    """A group of one process."""
    distributed = torch.distributed
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def held_against(wrap: Callable[[Any], Any], **more: Any) -> Kept:
    torch._dynamo.reset()
    plain = trained(wrap, **more)
    torch._dynamo.reset()
    with recorded() as kept:
        watched = trained(wrap, **more)
    assert all(torch.equal(one, other) for one, other in zip(plain, watched, strict=True))
    assert not kept.table("trouble")
    assert len(kept.calls("step")) >= 2 * STEPS
    return kept


def test_all_of_it_is_looked_at() -> None:
    kept = held_against(lambda model: model)
    told = {row["name"].split(".")[0] for row in kept.table("scalar")}
    assert {"loss", "stored", "ratio", "divergence"} <= told


@pytest.mark.parametrize("fullgraph", [False, True])
def test_a_compiled_model(fullgraph: bool) -> None:
    held_against(compiled(fullgraph))


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # the compiler's own, also without the recorder
def test_a_compiled_loss() -> None:
    held_against(lambda model: model, loss=torch.compile(loss_of, backend="aot_eager", fullgraph=True))


def test_a_model_as_a_function_of_its_weights() -> None:
    held_against(functional)


@pytest.mark.skipif(
    not hasattr(pytest.importorskip("torch.distributed.fsdp"), "fully_shard"),
    reason="this torch has them for GPUs alone",
)
@pytest.mark.parametrize("wrap", [sharded, split])
def test_a_model_of_distributed_tensors(wrap: Callable[[Any], Any], group: None) -> None:
    held_against(wrap)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch's own rules of forward mode
def test_forward_mode_and_gradients_of_functions() -> None:
    def run() -> list[Any]:
        torch.manual_seed(0)
        model = Policy().eval()
        weights = {name: one.detach().clone() for name, one in model.named_parameters()}
        tokens = torch.randint(0, WORDS, (4, LENGTH))
        before = torch.zeros(4, LENGTH, WORDS).log_softmax(-1)

        def loss(held: Any) -> Any:
            return loss_of(*torch.func.functional_call(model, held, (tokens,)), tokens, before)

        for _ in range(3):
            way = {name: torch.randn_like(one) for name, one in weights.items()}
            _, slope = torch.func.jvp(loss, (weights,), (way,))
            gradients = torch.func.grad(loss)(weights)
            weights = {name: one - 1e-3 * slope * way[name] - 0.1 * gradients[name] for name, one in weights.items()}
        return list(weights.values())

    plain = run()
    with recorded() as kept:
        watched = run()
    assert all(torch.equal(one, other) for one, other in zip(plain, watched, strict=True))
    assert not kept.table("trouble")


@pytest.mark.usefixtures("group")
def test_that_a_join_is_left_is_told() -> None:
    from torch.distributed.algorithms.join import Join

    with recorded() as kept:
        wrapped = nn.parallel.DistributedDataParallel(nn.Linear(3, 2))
        optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
        with Join([wrapped]):
            for _ in range(2):
                optimizer.zero_grad()
                wrapped(torch.randn(4, 3)).sum().backward()
                optimizer.step()
    assert len(kept.calls("join.left")) == 1
    assert not kept.table("trouble")
