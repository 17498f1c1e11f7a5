"""Weights in 4 and 8 bits."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


class _Model(torch.nn.Module):  # type: ignore[name-defined,misc]
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(256, 512, dtype=torch.bfloat16)
        self.lm_head = torch.nn.Linear(512, 10, dtype=torch.bfloat16)

    def forward(self, x: object) -> object:
        return self.lm_head(self.inner(x))


@pytest.mark.parametrize(
    ("bits", "nested", "size"),
    [
        # Two weights in a byte, a scale of 4 bytes for 64; or of one byte, with 4 more for 256 of those.
        (4, False, 256 * 512 // 2 + 256 * 512 // 64 * 4),
        (4, True, 256 * 512 // 2 + 256 * 512 // 64 + 256 * 512 // 64 // 256 * 4),
        (8, False, 256 * 512 + 512 * 4),
    ],
)
def test_bytes_of_a_layer(bits: int, nested: bool, size: int) -> None:
    from preflight.dryrun.virtual.engine.quantised import quantise

    model = _Model()
    quantise(model, bits, nested, None, ("lm_head",))
    held = [*model.inner.parameters(), *model.inner.buffers()]
    assert sum(part.nbytes for part in held) == size + 512 * 2  # and the bias in bf16
    assert model.lm_head.weight.dtype == torch.bfloat16
    x = torch.randn(4, 256, dtype=torch.bfloat16, requires_grad=True)
    made = model(x)
    made.float().sum().backward()
    assert made.shape == (4, 10)
    assert x.grad is not None
    assert all(part.grad is None for part in model.parameters())


def test_a_weight_is_made_in_its_own_type_before_that_of_the_input() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    from preflight.dryrun.virtual.engine.quantised import Linear4bit

    class Types(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.made: list[object] = []

        def __torch_dispatch__(self, func: object, types: object, args: tuple = (), kwargs: object = None) -> object:
            result = func(*args, **(kwargs or {}))  # type: ignore[operator]
            self.made.append(result.dtype)
            return result

    with Types() as seen:
        Linear4bit(64, 64, dtype=torch.float16).whole(torch.bfloat16)
    assert seen.made[-2:] == [torch.float16, torch.bfloat16]


def test_what_is_asked_for() -> None:
    from preflight.dryrun.virtual.engine.quantised import asked

    assert asked({"device_map": "auto"}) is None
    given = asked({"quantization_config": {"load_in_4bit": True, "bnb_4bit_compute_dtype": "bfloat16"}})
    assert given == {"bits": 4, "nested": False, "compute": torch.bfloat16, "kept": ("lm_head",)}
    assert (asked({"load_in_8bit": True}) or {})["bits"] == 8
