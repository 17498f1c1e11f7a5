"""Sees matrix products in half precision or TF32 whose sizes do not fill the tiles of tensor cores."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Fix
from preflight.check.observed.products import share, total
from preflight.check.observed.run import Run, seen
from preflight.check.rules.efficiency.dimensions_not_aligned import RULE
from preflight.vocabulary.finding import Finding
from preflight.vocabulary.work import Kind

SETTLES = False

_LOOP = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(4096, {width}, device="cuda")
for _ in range(4):
    optimizer.zero_grad()
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(x).sum()
    loss.backward()
    optimizer.step()
"""

BAD = (
    "import torch\nmodel = torch.nn.Sequential(torch.nn.Linear(1001, 50257), torch.nn.Linear(50257, 1001)).cuda()\n"
    + _LOOP.format(width=1001),
    "import torch\nwidth = 512 + int(True)\nmodel = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(6)]).cuda()\n"
    + _LOOP.format(width=513),
    "import os, torch\nwords = len(range(int(os.environ.get('WORDS', 30522 + 1))))\n"
    "model = torch.nn.Sequential(torch.nn.Linear(768, words)).cuda()\n" + _LOOP.format(width=768),
)

GOOD = (
    "import torch\nmodel = torch.nn.Sequential(torch.nn.Linear(1024, 50304), torch.nn.Linear(50304, 1024)).cuda()\n"
    + _LOOP.format(width=1024),
    "import torch\nmodel = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.Linear(4096, 1024), torch.nn.Linear(1024, 10)).cuda()\n"
    + _LOOP.format(width=1024),
)

_MOST, _LEAST = 0.1, 1e9
_TILES = {"float16": 8, "bfloat16": 8, "tf32": 4}


def observe(run: Run) -> Iterator[Finding]:
    """Find steps in which much of the arithmetic is in products of odd sizes."""
    if total(run) < _LEAST:
        return
    part = share(run, _odd)
    backwards = run.seen("backward")
    if part < _MOST or not backwards:
        return
    work = run.profile.work
    worst = max((kind for kind in work.kinds if _odd(kind)), key=lambda kind: kind.flop or 0)
    _, rows, columns, depth = worst.product or (0, 0, 0, 0)
    calls = run.seen("call")
    yield run.finding(
        RULE,
        calls[0].line if calls else backwards[0].line,
        f"{part:.0%} of the arithmetic of a step is in matrix products whose sizes are no multiples of {_TILES[worst.dtype]}, such "
        f"as {rows:,} x {depth:,} x {columns:,}: tensor cores work on tiles that are not full",
        evidence=[
            seen("share of the step's FLOP", round(part, 3)),
            seen("largest of them", f"{rows} x {depth} x {columns} in {worst.dtype}"),
        ],
        fix=Fix(
            title="round the sizes up",
            instruction="make widths and the vocabulary multiples of 64 and ignore the additional entries",
            expected="full tiles in these products",
        ),
    )


def _odd(kind: Kind) -> bool:
    tile = _TILES.get(kind.dtype)
    if tile is None or kind.product is None or kind.operator not in ("mm", "addmm", "bmm", "baddbmm"):
        return False
    _, rows, columns, depth = kind.product
    return min(rows, columns, depth) >= 256 and any(size % tile for size in (rows, columns, depth))
