"""The changes that are tried, the one with the least side effect first."""

from __future__ import annotations

from typing import Any

import msgspec

from preflight.vocabulary.profile import Profile


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """A change.

    Attributes:
        key: Its short name.
        title: What to do, in words.
        side_effect: What it costs; None for nothing.
        changes: What ``virtual.changes`` is asked for.
        environment: Variables of the environment.
    """

    key: str
    title: str
    side_effect: str | None = None
    changes: tuple[dict[str, Any], ...] = ()
    environment: dict[str, str] = {}


EXPANDABLE = Known(
    key="expandable segments",
    title="set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True in the environment",
    environment={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
)
FUSED = Known(key="fused", title="make the optimizer with fused=True", changes=({"name": "fused"},))
CHUNKED = Known(
    key="chunked loss",
    title="compute the cross-entropy in chunks of 1024 rows, each again in the backward pass",
    side_effect="the softmax is computed twice",
    changes=({"name": "cross_entropy"},),
)
RECOMPUTE = Known(
    key="recompute",
    title="recompute the repeated blocks in the backward pass (torch.utils.checkpoint, use_reentrant=False)",
    side_effect="a second forward pass of the blocks, up to a third more computation",
    changes=({"name": "recompute"},),
)
AUTOCAST = Known(
    key="bf16",
    title='run the forward and the loss under torch.autocast("cuda", dtype=torch.bfloat16)',
    side_effect="products and activations have 8 bits of mantissa",
    changes=({"name": "precision"},),
)
SMALL_ADAM = Known(
    key="8-bit optimizer",
    title="use bitsandbytes.optim.AdamW8bit in the place of the optimizer",
    side_effect="moments are rounded to 8 bits; needs bitsandbytes",
    changes=({"name": "optimizer", "to": "adam8bit"},),
)
ADAFACTOR = Known(
    key="Adafactor",
    title="use torch.optim.Adafactor in the place of the optimizer",
    side_effect="another optimizer: the learning rate has to be found again",
    changes=({"name": "optimizer", "to": "adafactor"},),
)
PAGED = Known(
    key="paged optimizer",
    title="use bitsandbytes.optim.PagedAdamW8bit in the place of the optimizer",
    side_effect="moments of 8 bits in unified memory, which the driver moves over PCIe when the GPU is full; needs bitsandbytes",
    changes=({"name": "optimizer", "to": "paged8bit"},),
)
SGD = Known(
    key="SGD",
    title="use torch.optim.SGD with momentum in the place of the optimizer",
    side_effect="another optimizer: learning rate and schedule have to be found again, and many models learn worse",
    changes=({"name": "optimizer", "to": "sgd"},),
)
ADAPTIVE = frozenset(("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "FusedAdam", "FusedLAMB", "Lamb", "AdamP"))


def sharded(ranks: int) -> Known:
    """FSDP over so many GPUs."""
    return Known(
        key=f"FSDP on {ranks}",
        title=f"shard the model with fully_shard (FSDP2) over {ranks} GPUs",
        side_effect=f"{ranks} GPUs; parameters travel between them in every forward and backward pass",
        changes=({"name": "sharding", "ranks": ranks},),
    )


def mild(seen: Profile, capacity: int, capability: tuple[int, int]) -> list[Known]:
    """Return the changes that leave batch and optimizer as they are, without those that cannot help this run.

    Args:
        seen: The run as it is.
        capacity: What PyTorch can take of the GPU.
        capability: The GPU's generation; before 8.0 it has no units for bf16.
    """
    found = [EXPANDABLE] if seen.full is not None and seen.peak_bytes <= capacity else []
    if _adaptive(seen) and _at_update(seen):
        found.append(FUSED)
    found += [CHUNKED, RECOMPUTE]
    return [*found, AUTOCAST] if capability >= (8, 0) else found


def optimizers(seen: Profile) -> list[Known]:
    """Return the optimizers that may take the place of the script's; none where its states are no part of the peak."""
    states = seen.categories.get("optimizer state", 0) >= 0.01 * seen.peak_bytes
    return [SMALL_ADAM, ADAFACTOR, PAGED, SGD] if _adaptive(seen) and (states or _at_update(seen)) else []


def _adaptive(seen: Profile) -> bool:
    return any(name in ADAPTIVE for name in seen.optimizers)


def _at_update(seen: Profile) -> bool:
    """Whether the update needs about as much as the rest of the step."""
    return max((m.allocated for m in seen.timeline if m.phase == "optimizer"), default=0) >= 0.9 * seen.peak_bytes


def together(*changes: Known) -> Known:
    """Return several changes as one."""
    costs = [change.side_effect for change in changes if change.side_effect]
    environment: dict[str, str] = {}
    for change in changes:
        environment |= change.environment
    return Known(
        key=" + ".join(change.key for change in changes),
        title="; ".join(change.title for change in changes),
        side_effect="; ".join(costs) or None,
        changes=tuple(one for change in changes for one in change.changes),
        environment=environment,
    )
