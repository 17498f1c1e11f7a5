"""What a GPU reaches: products, attention, copies, small kernels, the host's share, in figures for the cost model.

Usage: python rates.py [-o rates.toml]
Needs PyTorch and a CUDA GPU. Each figure is the median of repeats between two events, on random data that are drawn
anew in place, with inputs in turn so that none is found in the cache. ``src/preflight/dryrun/time.py`` and
``src/preflight/cost`` say which of these figures they rest on.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from measure import as_toml, machine

HERE = Path(__file__).resolve().parent
DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
PRODUCTS = (
    # rows, columns, depth: square ones, layers of known models, thin ones
    (8192, 8192, 8192),
    (4096, 4096, 4096),
    (2048, 2048, 2048),
    (1024, 1024, 1024),
    (512, 512, 512),
    (8192, 768, 768),
    (8192, 2304, 768),
    (8192, 3072, 768),
    (8192, 768, 3072),
    (768, 3072, 8192),
    (8192, 50257, 768),
    (8192, 2048, 2048),
    (8192, 8192, 2048),
    (2048, 8192, 8192),
    (2048, 128256, 2048),
    (512, 128, 128),
    (8192, 16, 4096),
)
ATTENTION = ((8, 12, 1024, 64), (4, 32, 2048, 64), (1, 32, 4096, 128), (64, 4, 256, 128), (32, 12, 512, 64))


def seconds(work: Callable[[int], Any], repeats: int = 12) -> float:
    """Return the median seconds of a piece of work, which is told which input it takes."""
    for number in range(3):
        work(number)
    marks = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repeats)]
    torch.cuda.synchronize()
    for number, (begin, end) in enumerate(marks):
        begin.record()
        work(number)
        end.record()
    torch.cuda.synchronize()
    return statistics.median(begin.elapsed_time(end) for begin, end in marks) / 1e3


def products() -> list[dict[str, Any]]:
    """Return the rates of products, by type and shape."""
    rows = []
    for name, dtype in DTYPES.items():
        torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
        for m, n, k in PRODUCTS:
            left = [torch.randn(m, k, device="cuda", dtype=dtype) for _ in range(3)]
            right = [torch.randn(k, n, device="cuda", dtype=dtype) for _ in range(3)]
            spent = seconds(lambda i, left=left, right=right: left[i % 3] @ right[i % 3])
            rows.append({"name": f"product {name} {m}x{n}x{k}", "seconds": spent, "flops": 2 * m * n * k / spent})
    torch.set_float32_matmul_precision("highest")
    for m, n, k in ((1024, 1024, 64), (1024, 64, 1024)):
        left, right = (torch.randn(96, a, b, device="cuda", dtype=torch.bfloat16) for a, b in ((m, k), (k, n)))
        spent = seconds(lambda i, left=left, right=right: left @ right)
        rows.append({"name": f"products bf16 96x{m}x{n}x{k}", "seconds": spent, "flops": 96 * 2 * m * n * k / spent})
    return rows


def attention() -> list[dict[str, Any]]:
    """Return the rates of attention in one kernel, forward and backward, without what a causal mask leaves out."""
    rows = []
    for causal in (True, False):
        for batch, heads, length, width in ATTENTION:
            q, k, v = (
                torch.randn(batch, heads, length, width, device="cuda", dtype=torch.bfloat16, requires_grad=True)
                for _ in range(3)
            )
            flop = 4 * batch * heads * length * length * width / (2 if causal else 1)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            grad = torch.randn_like(y)
            there = seconds(lambda i, q=q, k=k, v=v, c=causal: F.scaled_dot_product_attention(q, k, v, is_causal=c))
            back = seconds(
                lambda i, y=y, q=q, k=k, v=v, g=grad: torch.autograd.grad(y, (q, k, v), g, retain_graph=True)
            )
            name = f"attention {'causal' if causal else 'full'} {batch}x{heads}x{length}x{width}"
            rows.append({"name": f"{name} forward", "seconds": there, "flops": flop / there})
            rows.append({"name": f"{name} backward", "seconds": back, "flops": 2.5 * flop / back})
    return rows


def convolutions() -> list[dict[str, Any]]:
    """Return the rates of convolutions, forward and backward."""
    rows = []
    for name, dtype, last in (
        ("tf32", torch.float32, False),
        ("fp16", torch.float16, False),
        ("fp16", torch.float16, True),
    ):
        layout = torch.channels_last if last else torch.contiguous_format
        for batch, inside, outside, side, kernel, stride in (
            (64, 64, 64, 56, 3, 1),
            (64, 256, 64, 56, 1, 1),
            (64, 512, 512, 7, 3, 1),
            (64, 3, 64, 224, 7, 2),
            (64, 256, 256, 32, 3, 1),
        ):
            x = torch.randn(batch, inside, side, side, device="cuda", dtype=dtype).to(memory_format=layout)
            weight = torch.randn(outside, inside, kernel, kernel, device="cuda", dtype=dtype).to(memory_format=layout)
            x.requires_grad_()
            weight.requires_grad_()
            pad = kernel // 2
            y = F.conv2d(x, weight, stride=stride, padding=pad)
            grad = torch.randn_like(y)
            flop = 2 * y.numel() * inside * kernel * kernel
            there = seconds(lambda i, x=x, w=weight, s=stride, p=pad: F.conv2d(x, w, stride=s, padding=p))
            back = seconds(lambda i, x=x, w=weight, y=y, g=grad: torch.autograd.grad(y, (x, w), g, retain_graph=True))
            shape = f"{batch}x{inside}->{outside} {side}x{side} kernel {kernel} stride {stride}"
            order = " channels last" if last else ""
            rows.append({"name": f"convolution {name}{order} {shape} forward", "seconds": there, "flops": flop / there})
            rows.append(
                {"name": f"convolution {name}{order} {shape} backward", "seconds": back, "flops": 2 * flop / back}
            )
    return rows


def moved() -> list[dict[str, Any]]:
    """Return the bytes a second of kernels that only move data; read and written bytes are counted."""
    rows = []
    for size in (1 << 20, 1 << 24, 1 << 28):
        a, b = torch.randn(size, device="cuda"), torch.randn(size, device="cuda")
        out = torch.empty_like(a)
        for name, work, touched in (
            ("copy", lambda i, a=a, out=out: out.copy_(a), 2),
            ("add", lambda i, a=a, b=b, out=out: torch.add(a, b, out=out), 3),
            ("gelu", lambda i, a=a: F.gelu(a), 2),
            ("softmax", lambda i, a=a: a.view(-1, 1024).softmax(-1), 2),
            ("layer norm", lambda i, a=a: F.layer_norm(a.view(-1, 1024), (1024,)), 2),
            ("sum", lambda i, a=a: a.sum(), 1),
            ("dropout", lambda i, a=a: F.dropout(a, 0.1), 2.25),
            ("to bf16", lambda i, a=a: a.bfloat16(), 1.5),
        ):
            spent = seconds(work)
            rows.append(
                {"name": f"{name} {size} fp32", "seconds": spent, "bytes_per_second": 4 * size * touched / spent}
            )
    for pinned in (True, False):
        rows += _between(torch.empty(1 << 28, dtype=torch.uint8, pin_memory=pinned), "pinned" if pinned else "pageable")
    return rows


def _between(host: torch.Tensor, kind: str) -> list[dict[str, Any]]:
    """Return how fast bytes go between the host and the GPU."""
    device = torch.empty_like(host, device="cuda")
    ways = (("up", lambda i: device.copy_(host)), ("down", lambda i: host.copy_(device)))
    spent = {name: seconds(work, 6) for name, work in ways}
    return [
        {"name": f"{name} {kind}", "seconds": took, "bytes_per_second": host.numel() / took}
        for name, took in spent.items()
    ]


def host() -> list[dict[str, Any]]:
    """Return what the host takes for an operator, and what a kernel takes at least."""
    rows = []
    small = torch.randn(64, device="cuda")
    leaf = torch.randn(64, 64, device="cuda", requires_grad=True)
    layer = torch.nn.Linear(64, 64, device="cuda")
    data = torch.randn(8, 64, device="cuda")
    for name, work in (
        ("add_", lambda: small.add_(1.0)),
        ("mul", lambda: small * 2.0),
        ("mul with a graph", lambda: leaf * 2.0),
        ("view", lambda: small.view(8, 8)),
        ("linear", lambda: layer(data)),
        ("linear without a graph", lambda: data @ data.T),
        ("layer norm", lambda: F.layer_norm(data, (64,))),
        ("softmax", lambda: data.softmax(-1)),
        ("cross entropy", lambda: F.cross_entropy(data, torch.zeros(8, dtype=torch.long, device="cuda"))),
    ):
        for _ in range(50):
            work()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(300):
            work()
        submitted = time.perf_counter() - begin
        torch.cuda.synchronize()
        rows.append({"name": f"host {name}", "seconds": submitted / 300, "done": (time.perf_counter() - begin) / 300})
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(200):
            small.add_(1.0)
    rows.append({"name": "kernel in a graph", "seconds": seconds(lambda i: graph.replay()) / 200})
    x = [torch.randn(64, 64, device="cuda", requires_grad=True) for _ in range(1)]

    def chain() -> torch.Tensor:
        y = x[0]
        for _ in range(100):
            y = y * 1.01
        return y.sum()

    for _ in range(3):
        chain().backward()
    torch.cuda.synchronize()
    spent = []
    for _ in range(10):
        loss = chain()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        loss.backward()
        torch.cuda.synchronize()
        spent.append(time.perf_counter() - begin)
    rows.append({"name": "backward of one of 100 small operators", "seconds": statistics.median(spent) / 100})
    return rows


def updates() -> list[dict[str, Any]]:
    """Return the seconds of optimizer steps: 148 tensors of 124 M elements in all, as GPT-2 has them."""
    rows = []
    shapes = [(50257, 768), (1024, 768)] + 12 * [(2304, 768), (768, 768), (3072, 768), (768, 3072), *[(768,)] * 8]
    for name, options in (("fused", {"fused": True}), ("foreach", {"foreach": True}), ("loop", {"foreach": False})):
        weights = [torch.randn(shape, device="cuda").requires_grad_() for shape in shapes]
        for weight in weights:
            weight.grad = torch.randn_like(weight)
        optimizer = torch.optim.AdamW(weights, lr=1e-4, **options)
        rows.append({"name": f"AdamW {name}", "seconds": seconds(lambda i, o=optimizer: o.step(), 6)})
        if name == "foreach":
            clip = seconds(lambda i, w=weights: torch.nn.utils.clip_grad_norm_(w, 1.0), 6)
            rows.append({"name": "clip_grad_norm_", "seconds": clip})
    return rows


def main() -> int:
    """Measure everything and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", default=str(HERE / "rates.toml"))
    given = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("this PyTorch sees no GPU")
    torch.backends.cudnn.benchmark = True
    rows: list[dict[str, Any]] = []
    for part in (products, attention, convolutions, moved, host, updates):
        found = part()
        rows += found
        torch.cuda.empty_cache()
        for row in found:
            print(json.dumps(row), file=sys.stderr, flush=True)
    text = as_toml(machine(), rows, "rate", "rates.py")
    Path(given.output).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
