"""Norms of what passes by, taken at once: the same as torch's, and nothing of the program's is touched."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from preflight.monitor.collect.digests import AtOnce  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1, 100, 1 << 13, (1 << 17) + 3])
def test_it_is_the_norm_that_torch_takes(kind: torch.dtype, size: int) -> None:
    tensor = torch.randn(size, dtype=kind)
    assert AtOnce(torch).norm(tensor) == pytest.approx(tensor.norm().item(), rel=1e-5)


def test_what_is_laid_out_otherwise_has_its_norm_too() -> None:
    tensor = torch.randn(300, 200)
    for other in (tensor.t(), tensor[::2], tensor[:, 3], tensor[:, :1].expand(300, 70), tensor[5:]):
        assert AtOnce(torch).norm(other) == pytest.approx(other.norm().item(), rel=1e-5)


@pytest.mark.parametrize("size", [10, 1 << 14])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e30])
def test_what_is_not_finite_is_nan(size: int, value: float) -> None:
    tensor = torch.ones(size)
    tensor[size // 2] = value
    assert math.isnan(AtOnce(torch).norm(tensor) or 0.0)


@pytest.mark.cuda
def test_on_a_device_it_is_begun_and_not_waited_for() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    for kind in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        tensor = torch.randn(300, 200).to(kind)
        moved, norm = tensor.cuda().requires_grad_().mul(1.0), AtOnce(torch).norm
        torch.cuda.set_sync_debug_mode("error")
        try:
            found = norm(moved)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert found.is_cuda
        assert not found.requires_grad
        assert found.item() == pytest.approx(tensor.double().norm().item(), rel=1e-4)


def test_what_is_strange_is_left_to_another_way() -> None:
    norm = AtOnce(torch).norm
    strange = [
        torch.ones(3, dtype=torch.bfloat16),
        torch.ones(3, dtype=torch.int64),
        torch.ones(0),
        torch.ones(3).to_sparse(),
        torch.ones(3, dtype=torch.complex64).conj().imag,
        torch.ones(3, device="meta"),
        torch.nn.Parameter(torch.ones(3)),
    ]
    assert [norm(one) for one in strange] == [None] * len(strange)
    with torch.autocast("cpu"):
        assert norm(torch.ones(3)) is None


def test_gradients_are_recorded_as_before_and_nothing_is_drawn() -> None:
    state = torch.get_rng_state()
    weight = torch.ones(1 << 14, requires_grad=True)
    out = weight * 2
    version = out._version
    assert AtOnce(torch).norm(out) == 2 * 128
    assert torch.is_grad_enabled()
    assert out._version == version
    out.sum().backward()
    assert weight.grad is not None
    assert weight.grad.eq(2).all()
    with torch.inference_mode():
        assert AtOnce(torch).norm(torch.ones(4)) == 2
        assert not torch.is_grad_enabled()
    assert torch.equal(torch.get_rng_state(), state)
