"""The hooks on all modules step aside while only a whole pass is told, and come back whatever happens in it."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")
import torch
from tests.monitor.collect.recording import recorded
from torch import nn
from torch.nn.modules import module as hooks

pytestmark = pytest.mark.torch
QUIET = {"detail_first": 0, "detail_every": 0}


class Layer(nn.Module):
    """Does what it is told to while it runs, and then multiplies."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.act: Callable[[], object] = lambda: None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.act()
        return self.inner(x)  # type: ignore[no-any-return]


@pytest.fixture(autouse=True)
def nothing_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that ran before in this process may have compiled something, for which the hooks would stay where they are."""
    compiler = sys.modules.get("torch._dynamo.eval_frame")
    if compiler is not None:
        monkeypatch.setattr(compiler, "cached_backends", {})


def there() -> tuple[int, int]:
    return len(hooks._global_forward_pre_hooks), len(hooks._global_forward_hooks)


def seen_in(model: Layer, settings: dict[str, Any]) -> list[tuple[int, int]]:
    """How many hooks on all modules there are before, within and after a pass."""
    found: list[tuple[int, int]] = []
    model.act = lambda: found.append(there())
    with recorded(**settings):
        found.append(there())
        model(torch.ones(1, 2))
        found.append(there())
    return found


def test_within_a_pass_whose_parts_are_not_told_there_are_none() -> None:
    model = Layer()
    assert seen_in(model, QUIET) == [(1, 1), (0, 0), (1, 1)]
    assert not model._forward_hooks
    assert not model._forward_hooks_always_called


def test_they_stay_where_parts_are_told() -> None:
    assert seen_in(Layer(), {"detail_every": 1}) == [(1, 1)] * 3


def test_they_stay_beside_hooks_of_the_program() -> None:
    handle = hooks.register_module_forward_hook(lambda module, args, output: None)
    try:
        assert seen_in(Layer(), QUIET) == [(1, 2)] * 3
    finally:
        handle.remove()


def test_a_layer_that_looks_for_hooks_before_it_computes_has_none_of_its_own() -> None:
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
    found: list[int] = []
    layer.linear1.register_forward_pre_hook(lambda module, args: found.append(len(layer._forward_hooks)))
    with recorded(**QUIET), torch.no_grad():
        layer(torch.ones(1, 3, 4))
    assert set(found) <= {0}  # an older torch calls nothing of such a layer


def test_a_pass_that_raises_brings_them_back_and_the_next_is_told() -> None:
    model = Layer()

    def fail() -> None:
        raise ValueError("the program's own")

    with recorded(**QUIET) as kept:
        model.act = fail
        with pytest.raises(ValueError, match="the program's own"):
            model(torch.ones(1, 2))
        assert there() == (1, 1)
        model.act = lambda: None
        assert type(pickle.loads(pickle.dumps(model._forward_hooks))) is type(model._forward_hooks)
        model(torch.ones(1, 2)).sum().backward()
    assert len(kept.calls("forward")) == 1
    assert not kept.table("trouble")
    assert not model._forward_hooks


def test_a_copy_that_is_made_within_a_pass_is_no_part_of_the_recording() -> None:
    model = Layer()
    copies: list[Any] = []
    model.act = lambda: copies.extend((copy.deepcopy(model.inner), copy.deepcopy(dict(model._forward_hooks))))
    with recorded(**QUIET) as kept:
        model(torch.ones(1, 2))
        copied = next(iter(copies[1].values()))
        assert copied(model, (), None) is None
    assert len(kept.calls("forward")) == 1
    assert not kept.table("trouble")
