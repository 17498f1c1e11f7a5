"""Compute: the forward pass, the backward pass and the optimizer's step of a transformer block at a real shape."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from preflight.investigate.probes.timed import Row, row, samples_of

TITLE = "forward, backward and optimizer of transformer blocks at a given shape"
TOGETHER = False
SMALL = {"batch": 1, "sequence": 64, "hidden": 128, "layers": 2, "heads": 4}
LARGE = {"batch": 2, "sequence": 2048, "hidden": 2048, "layers": 4, "heads": 16}
_held: dict[str, Any] = {}


def operations(settings: dict[str, Any]) -> list[str]:
    """Return what is measured."""
    return ["matmul", "forward", "backward", "optimizer"]


def measure(operation: str, settings: dict[str, Any]) -> list[Row]:
    """Measure one of them; the model is built once a process."""
    import torch

    device = torch.device(settings["device"])
    finish = torch.cuda.synchronize if device.type == "cuda" else None
    slow = float(settings.get("slow", 1.0))
    if operation == "matmul":
        return [_matmul(settings, device, finish, slow)]
    held = _model(settings, device)
    before, timed = _parts(operation, held)
    taken: list[float] = []

    def both() -> None:
        before()
        if finish is not None:
            finish()
        began = time.perf_counter()
        timed()
        if finish is not None:
            finish()
        passed = time.perf_counter() - began
        if slow > 1.0:
            time.sleep(passed * (slow - 1.0))
        taken.append(time.perf_counter() - began)

    samples_of(both, settings)
    kept = taken[settings["warm_up"] :]
    flops = held["flops"] * {"forward": 1, "backward": 2}.get(operation, 0)
    rate = {"flops": flops} if flops else {}
    return [row(operation, "s", "smaller", kept, parameters=held["parameters"], **held["shape"], **rate)]


def _matmul(settings: dict[str, Any], device: Any, finish: Any, slow: float) -> Row:
    """Multiply square matrices: the rate that everything else is limited by."""
    import torch

    side = 4096 if device.type == "cuda" else 256
    kind = torch.bfloat16 if device.type == "cuda" else torch.float32
    left, right = torch.randn(side, side, device=device, dtype=kind), torch.randn(side, side, device=device, dtype=kind)

    def multiply() -> None:
        began = time.perf_counter()
        left @ right
        if slow > 1.0:
            if finish is not None:
                finish()
            time.sleep((time.perf_counter() - began) * (slow - 1.0))

    rates = [2 * side**3 / taken for taken in samples_of(multiply, settings, finish)]
    return row(f"matmul {side}", "FLOP/s", "larger", rates, dtype=str(kind).removeprefix("torch."))


def _model(settings: dict[str, Any], device: Any) -> dict[str, Any]:
    import torch

    shape = {**(LARGE if device.type == "cuda" else SMALL), **settings.get("shape", {})}
    if _held.get("shape") == shape:
        return _held
    torch.manual_seed(0)
    kind = torch.bfloat16 if device.type == "cuda" else torch.float32
    layer = torch.nn.TransformerEncoderLayer(
        shape["hidden"], shape["heads"], 4 * shape["hidden"], dropout=0.0, batch_first=True, norm_first=True,
        device=device, dtype=kind,
    )  # fmt: skip
    model = torch.nn.TransformerEncoder(layer, shape["layers"], enable_nested_tensor=False)
    given = torch.randn(shape["batch"], shape["sequence"], shape["hidden"], device=device, dtype=kind)
    parameters = sum(one.numel() for one in model.parameters())
    tokens = shape["batch"] * shape["sequence"]
    # Two FLOP a weight and token, and 4 x sequence x hidden a token and layer for scores and their sum.
    flops = 2 * parameters * tokens + 4 * shape["layers"] * tokens * shape["sequence"] * shape["hidden"]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    _held.update(shape=shape, model=model, given=given, parameters=parameters, flops=flops, optimizer=optimizer)
    return _held


def _parts(operation: str, held: dict[str, Any]) -> tuple[Any, Any]:
    """Return what has to come before, untimed, and what is timed."""

    def forward() -> None:
        held["loss"] = held["model"](held["given"]).float().square().mean()

    def backward() -> None:
        held["loss"].backward()

    def clear() -> None:
        held["optimizer"].zero_grad(set_to_none=True)

    if operation == "forward":
        return clear, forward
    if operation == "backward":
        return in_turn(clear, forward), backward
    return in_turn(clear, forward, backward), held["optimizer"].step


def in_turn(*parts: Callable[[], None]) -> Callable[[], None]:
    """Return a function that does one after the other."""

    def do() -> None:
        for part in parts:
            part()

    return do
