"""What a pass over all parameters costs: our digests beside what torch offers, interleaved in one process.

python benchmarks/monitor/digests.py [--threads 1 2] [--rounds 40] [--device cpu]

Each round runs every way once, in another order; the table shows the median of wall and of process CPU time of a pass.
Ratios are medians over the rounds of one way's CPU time over that of torch.hash_tensor (wall time on a device).
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from preflight.monitor.collect import digest


def gpt(width: int = 128, layers: int = 4, vocabulary: int = 65, context: int = 64) -> Iterator[tuple[int, ...]]:
    """Yield the shapes of the parameters of a small GPT."""
    yield from ((vocabulary, width), (context, width))
    for _ in range(layers):
        yield from ((width,), (width,), (3 * width, width), (3 * width,), (width, width), (width,))
        yield from ((width,), (width,), (4 * width, width), (4 * width,), (width, 4 * width), (width,))
    yield from ((width,), (width,), (vocabulary, width))


def resnet() -> Iterator[tuple[int, ...]]:
    """Yield the shapes of the parameters of a ResNet-50."""

    def block(inside: int, outside: int, kernel: int) -> Iterator[tuple[int, ...]]:
        yield from ((outside, inside, kernel, kernel), (outside,), (outside,))

    yield from block(3, 64, 7)
    inside = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for index in range(blocks):
            yield from block(inside, width, 1)
            yield from block(width, width, 3)
            yield from block(width, 4 * width, 1)
            if index == 0:
                yield from block(inside, 4 * width, 1)
            inside = 4 * width
    yield from ((1000, 2048), (1000,))


def ways(tensors: list[Any]) -> dict[str, Callable[[], object]]:
    """Return every way to go over the tensors."""

    def read(pending: Any) -> object:
        return pending.values(wait=True)

    found: dict[str, Callable[[], object]] = {
        "fingerprints": lambda: read(digest.fingerprints(tensors)),
        "norms": lambda: read(digest.norms(tensors)),
        "_foreach_norm": lambda: torch.stack(torch._foreach_norm(tensors)).tolist(),
        "clone": lambda: [tensor.clone() for tensor in tensors],
    }
    if hasattr(torch, "hash_tensor"):
        found["hash_tensor"] = lambda: torch.stack([torch.hash_tensor(tensor) for tensor in tensors]).tolist()
    return found


def measure(tensors: list[Any], rounds: int, repeat: int) -> dict[str, list[tuple[float, float]]]:
    """Return for each way the wall and CPU milliseconds of a pass, round by round."""
    found = ways(tensors)
    for way in found.values():
        way()
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in found}
    order = list(found)
    for _ in range(rounds):
        random.shuffle(order)
        for name in order:
            way = found[name]
            way()
            wall, cpu = time.perf_counter(), time.process_time()
            for _ in range(repeat):
                way()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            times[name].append((wall * 1e3 / repeat, cpu * 1e3 / repeat))
    return times


def show(title: str, tensors: list[Any], arguments: argparse.Namespace) -> None:
    """Print one table."""
    count = sum(tensor.numel() for tensor in tensors)
    times = measure(tensors, arguments.rounds, 1 if count > 5e6 else 10)
    print(f"{title}: {len(tensors)} tensors, {count:,} elements, {tensors[0].dtype}, {torch.get_num_threads()} threads")
    which = 1 if arguments.device == "cpu" else 0
    base = [own[which] for own in times.get("hash_tensor", times["_foreach_norm"])]
    for name, own in times.items():
        wall, cpu = (statistics.median(column) for column in zip(*own, strict=True))
        ratio = statistics.median(value[which] / other for value, other in zip(own, base, strict=True))
        print(f"  {name:14} {wall:8.3f} ms wall {cpu:8.3f} ms CPU  {ratio:6.2f}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    arguments = parser.parse_args()
    kind = getattr(torch, arguments.dtype)
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        for title, shapes in (("GPT", gpt()), ("ResNet-50", resnet())):
            show(title, [torch.randn(shape, device=arguments.device).to(kind) for shape in shapes], arguments)


if __name__ == "__main__":
    main()
