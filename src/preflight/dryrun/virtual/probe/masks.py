"""Looks at the masks that attention is given: numbers that forbid nothing, and the wrong way round."""

from __future__ import annotations

from typing import Any

import torch

from preflight.dryrun.virtual.progress import Progress

_LARGEST = 1 << 22
_MHA = (
    "query key value embed_dim_to_check num_heads in_proj_weight in_proj_bias bias_k bias_v add_zero_attn dropout_p "
    "out_proj_weight out_proj_bias training key_padding_mask need_weights attn_mask"
).split()


class Masks:
    """The masks of a run, each line's of one shape once.

    Args:
        progress: Where the run is.

    Attributes:
        records: Plain values for each.
    """

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.records: list[dict[str, Any]] = []
        self._known: set[tuple[Any, ...]] = set()

    def called(self, name: str, args: Any, kwargs: Any) -> None:
        """A function of PyTorch has run."""
        if name == "scaled_dot_product_attention":
            self._look("attn_mask", kwargs.get("attn_mask", args[3] if len(args) > 3 else None), allows=True)
        elif name == "multi_head_attention_forward":
            given = dict(zip(_MHA, args, strict=False)) | kwargs
            self._look("attn_mask", given.get("attn_mask"), allows=False)
            self._look("key_padding_mask", given.get("key_padding_mask"), allows=False)

    def _look(self, what: str, mask: Any, allows: bool) -> None:
        """Note a mask.

        Args:
            what: The argument.
            mask: What it was.
            allows: Whether True means that a position may be attended to.
        """
        if not isinstance(mask, torch.Tensor) or not 1 < mask.numel() <= _LARGEST or not torch.is_grad_enabled():
            return
        key = (self.progress.line(), self.progress.module, what, tuple(mask.shape), mask.dtype)
        if key in self._known or mask.requires_grad:
            return
        self._known.add(key)
        with torch.no_grad():
            told = _floats(mask) if mask.is_floating_point() else _forbidden(mask.bool() ^ allows)
        record = {"what": what, "line": key[0], "module": key[1], "shape": list(mask.shape)}
        self.records.append({**record, "dtype": str(mask.dtype).removeprefix("torch."), **told})


def _floats(mask: Any) -> dict[str, Any]:
    """Say whether numbers that are added to the scores are zeros and ones and nothing else."""
    ones = bool((mask == 1).any()) and bool((mask == 0).any()) and bool(((mask == 0) | (mask == 1)).all())
    return {"zeros_and_ones": ones, **_forbidden(mask == float("-inf"))}


def _forbidden(forbidden: Any) -> dict[str, Any]:
    """Say what is forbidden: all that a row may see, and the earlier positions instead of the later ones."""
    told: dict[str, Any] = {"blind": int(forbidden.all(-1).sum()), "rows": forbidden.numel() // forbidden.shape[-1]}
    size = forbidden.shape[-1]
    if forbidden.dim() >= 2 and forbidden.shape[-2] == size > 2:
        square = forbidden.reshape(-1, size, size)[0]
        earlier = torch.ones(size, size, dtype=torch.bool).tril(-1)
        told["backwards"] = bool(square[earlier].all()) and not bool(square[earlier.t()].any())
    return told
