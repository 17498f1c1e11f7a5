"""What a dry run saw of a small training: the material of the pictures of memory."""

from __future__ import annotations

import msgspec

from preflight.vocabulary.held import Holder, Instant
from preflight.vocabulary.memory import MemoryBreakdown, MemoryEstimate, TimelinePoint
from preflight.vocabulary.profile import Profile
from preflight.vocabulary.quantity import GIB, Interval

PARTS = MemoryBreakdown(
    model_parameters=4 * GIB, gradients=4 * GIB, optimizer_states=8 * GIB, activations=20 * GIB, workspace=0.25 * GIB,
    fragmentation=1.75 * GIB, context=1 * GIB,
)  # fmt: skip
READ = MemoryEstimate(
    device_bytes=Interval(38 * GIB, 39 * GIB, 40 * GIB),
    capacity_bytes=int(36 * GIB),
    fits="no",
    breakdown=PARTS,
    timeline=(
        TimelinePoint(
            step=0, phase="init", allocated_bytes=4 * GIB, reserved_bytes=5 * GIB, owners={"model_parameters": 4 * GIB}
        ),
        TimelinePoint(
            step=0, phase="forward", allocated_bytes=24 * GIB, reserved_bytes=25 * GIB,
            owners={"model_parameters": 4 * GIB, "activations": 20 * GIB},
        ),
        TimelinePoint(step=0, phase="backward", allocated_bytes=36 * GIB, reserved_bytes=37 * GIB),
    ),
)  # fmt: skip
SEEN = msgspec.structs.replace(READ, method="dry-run")
PROFILE = Profile(
    outcome="stopped",
    holders=(
        Holder("activation", "blocks.*.mlp", "train.py:9", int(9 * GIB)),
        Holder("activation", "", "train.py:30", int(7 * GIB)),
        Holder("parameter", "embed.weight", "train.py:4", int(1 * GIB)),
    ),
    course=(
        Instant(0, "init", int(4 * GIB), {"parameter": int(3 * GIB), "buffer": int(1 * GIB)}),
        Instant(0, "forward", int(20 * GIB), {"parameter": int(4 * GIB), "activation": int(12 * GIB), "input": 2**20}),
        Instant(0, "forward", int(30 * GIB), {"parameter": int(4 * GIB), "activation": int(20 * GIB)}),
        Instant(
            0,
            "backward",
            int(38 * GIB),
            {"parameter": int(4 * GIB), "gradient": int(4 * GIB), "temporary": int(20 * GIB)},
        ),
        Instant(1, "forward", int(38 * GIB), {"parameter": int(4 * GIB), "optimizer state": int(8 * GIB)}),
    ),
)
