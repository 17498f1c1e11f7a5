"""What a graph saved is not read where the program hooked it, whatever this PyTorch tells of hooks."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from tests.monitor.collect.recording import recorded  # noqa: E402

from preflight.monitor.collect import unpacking  # noqa: E402


def product(hooked: bool) -> Any:
    def made() -> Any:
        return torch.ones(3, requires_grad=True) * torch.rand(3)

    if not hooked:
        return made().grad_fn
    with torch.autograd.graph.saved_tensors_hooks(lambda given: given, lambda kept: kept):
        return made().grad_fn


@pytest.mark.skipif(not unpacking.saved_tensors_tell(), reason="this torch tells nothing of hooks on what is saved")
def test_each_saved_tensor_tells_of_its_own() -> None:
    assert unpacking.runs_a_hook(product(True), "other")
    assert not unpacking.runs_a_hook(product(False), "other")


def test_an_older_torch_reads_nothing_once_hooks_were_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "saved_tensors_tell", lambda: False)
    monkeypatch.setattr(unpacking._Process, "hooked", False)
    assert not unpacking.runs_a_hook(product(False), "other")
    with recorded():
        hooked = product(True)
        assert unpacking.runs_a_hook(hooked, "other")
        assert unpacking.runs_a_hook(product(False), "other")  # it is not known which ones have them
        assert not unpacking.runs_a_hook(torch.ones(3, requires_grad=True).sum(0).grad_fn, "dim")  # a number, no tensor
    assert not unpacking.runs_a_hook(product(False), "other")


def test_an_older_torch_is_looked_at_like_a_newer_one_until_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch._C._autograd, "_top_saved_tensors_default_hooks", raising=False)
    hooks = unpacking.Hooks(torch)
    hooks.look()
    assert not hooks.ever
