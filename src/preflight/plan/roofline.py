"""The products and the attention of a plan's step beneath the roofs of its GPU."""

from __future__ import annotations

from preflight.cost.attention_time import FLASH_BACKWARD, attention_time, mean_keys
from preflight.cost.kernels import matmul_seconds
from preflight.cost.layer_time import products_of
from preflight.cost.ledger import Ledger, ledger_if_known
from preflight.cost.machine import Coefficients, Machine, compute_dtype, machine_of
from preflight.cost.parameters import attention_width, is_transformer
from preflight.cost.stage_time import block_tokens, depth_of
from preflight.plan.changes import layout_of
from preflight.plan.request import Request
from preflight.vocabulary.roofline import Roofline, RoofPoint


def roofline_of(request: Request, coefficients: Coefficients | None = None) -> Roofline | None:
    """Return the operators of a settled request's step on one GPU; None without a transformer or known rates."""
    model, run, parallel = request.model, request.run, layout_of(request)
    machine = machine_of(request.cluster, run, coefficients or request.coefficients)
    ledger = ledger_if_known(model, run, parallel, request.cluster.gpu, 0)
    if machine is None or ledger is None or not run.micro_batch or not is_transformer(model):
        return None
    tokens = run.micro_batch * block_tokens(model, run) / parallel.cp
    times = depth_of(model, run) / parallel.pp * ledger.micro_batches
    products = products_of(model, tokens, parallel.tp, parallel.ep)
    points = [point for one in products for point in _products(request, machine, ledger, one, times)]
    points += _attention(request, machine, ledger, tokens, times)
    return Roofline(
        gpu=request.cluster.gpu.title,
        peaks={compute_dtype(run): machine.peak},
        bandwidth=request.cluster.gpu.bandwidth,
        points=tuple(sorted(points, key=lambda point: (-point.seconds, point.operator, point.phase))),
        basis="products and attention of the blocks on one GPU, timed by formula; without embedding, output and loss",
    )


def _products(
    request: Request,
    machine: Machine,
    ledger: Ledger,
    product: tuple[str, float, float, float, float],
    times: float,
) -> list[RoofPoint]:
    """Return a product and the two behind it: gradients of what came in, and of the weights where they are trained."""
    name, count, rows, columns, inner = product
    width, calls = ledger.recipe.matmul, count * times
    flop, moved = 2 * rows * columns * inner, width * (rows * inner + inner * columns + rows * columns)
    ahead = matmul_seconds(machine, rows, columns, inner, width)
    back = matmul_seconds(machine, rows, inner, columns, width)
    behind = 1
    if request.run.finetune == "full":
        back, behind = back + matmul_seconds(machine, inner, columns, rows, width), 2
    dtype = compute_dtype(request.run)
    return [
        RoofPoint(
            operator=name, phase="forward", dtype=dtype, calls=calls, flop=calls * flop, bytes=calls * moved,
            seconds=calls * ahead,
        ),
        RoofPoint(
            operator=name, phase="backward", dtype=dtype, calls=calls * behind, flop=calls * behind * flop,
            bytes=calls * behind * moved, seconds=calls * back,
        ),
    ]  # fmt: skip


def _attention(request: Request, machine: Machine, ledger: Ledger, tokens: float, times: float) -> list[RoofPoint]:
    """Return attention by a flash kernel: it reads queries, keys and values and writes the result, whatever the length.

    Backward it takes five products in the place of two, and reads and writes each of these twice. A matrix of scores that
    is written out is many kernels, and none of them is drawn.
    """
    model, run, parallel = request.model, request.run, layout_of(request)
    if run.attention in ("eager", "math") or not model.heads:
        return []
    queries, kv = attention_width(model)
    length = block_tokens(model, run)
    seen = mean_keys(model, length, model.family in ("transformer_decoder", "moe"))
    flop = 4.0 * tokens * seen * queries / parallel.tp
    moved = ledger.recipe.matmul * tokens * (2 * queries + 2 * kv) / parallel.tp
    found = attention_time(model, run, ledger.recipe, machine, tokens, length, parallel.tp, parallel.cp)
    dtype = compute_dtype(run)
    return [
        RoofPoint(
            operator="attention", phase="forward", dtype=dtype, calls=times, flop=times * flop, bytes=times * moved,
            seconds=times * found.forward,
        ),
        RoofPoint(
            operator="attention", phase="backward", dtype=dtype, calls=times, flop=times * flop * FLASH_BACKWARD,
            bytes=times * moved * 2, seconds=times * found.backward,
        ),
    ]  # fmt: skip
