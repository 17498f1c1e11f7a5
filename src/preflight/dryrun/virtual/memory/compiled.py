"""What a compiled region does not write to memory.

``torch.compile`` makes one kernel of many operators: what one that works element by element gives to the next stays in
registers, and the backward pass computes it again rather than read it (AOTAutograd's partitioner saves what products of
matrices, convolutions and attention gave). A dry run runs operator by operator; this counts beside it what such a region
would hold. What a product reads has to be written, for as long as the product runs; what leaves the region, for good.
"""

from __future__ import annotations

from typing import Any

import torch

_FUSED = frozenset(
    "native_layer_norm native_layer_norm_backward _fused_rms_norm _fused_rms_norm_backward native_group_norm "
    "native_group_norm_backward native_batch_norm native_batch_norm_backward cudnn_batch_norm cudnn_batch_norm_backward "
    "_softmax _log_softmax _softmax_backward_data _log_softmax_backward_data nll_loss_forward nll_loss_backward "
    "nll_loss2d_forward nll_loss2d_backward _to_copy clone cat stack native_dropout native_dropout_backward embedding sum "
    "mean amax amin var_mean max_pool2d_with_indices slice_backward select_backward constant_pad_nd zeros zeros_like ones "
    "ones_like full full_like new_zeros new_full arange triu tril repeat".split()
)


class Compiled:
    """Counts the bytes of a run's results that a compiler would not write.

    Attributes:
        peak: The highest number of bytes without them.
        any: Whether there was one.
    """

    def __init__(self) -> None:
        self.peak = 0
        self.any = False
        self._spared: dict[int, int] = {}
        self._sources: dict[int, set[int]] = {}  # of each that is spared: what was written and it is made of
        self._needed: dict[int, set[int]] = {}  # the other way round
        self._kept: dict[int, int] = {}  # written ones that are gone, without which one could not be made again
        self._sum = 0  # bytes that are held now and would not be
        self._made = 0

    def spare(self, key: int, size: int, read: list[int]) -> None:
        """A result is made of what was read, and would not be written."""
        if key in self._spared:
            return
        self.any = True
        self._spared[key] = size
        self._sum += size
        sources: set[int] = set()
        for other in read:
            sources |= self._sources.get(other, {other})
        self._sources[key] = sources
        for source in sources:
            self._needed.setdefault(source, set()).add(key)

    def write(self, key: int) -> None:
        """A result would be written after all, or is freed."""
        self._sum -= self._spared.pop(key, 0)
        for source in self._sources.pop(key, ()):
            users = self._needed.get(source, set())
            users.discard(key)
            if not users:
                self._needed.pop(source, None)
                self._sum += self._kept.pop(source, 0)

    def free(self, key: int, size: int) -> None:
        """A result is freed: of what was made of it and is held, one has to be, or it is kept itself, if that is less."""
        self.write(key)
        users = self._needed.pop(key, None)
        if users:
            self._made -= 1  # a number that no storage has
            self._needed[self._made] = users
            for user in users:
                self._sources[user] = self._sources[user] - {key} | {self._made}
            kept = self._kept[self._made] = min(size, *(self._spared[user] for user in users))
            self._sum -= kept

    def read(self, keys: list[int], allocated: int) -> None:
        """An operator with a kernel of its own reads these: while it runs, they are in memory."""
        self.mark(allocated + sum(self._spared.get(key, 0) for key in set(keys)))

    def mark(self, allocated: int) -> None:
        """So many bytes are allocated."""
        self.peak = max(self.peak, allocated - self._sum)


def fused(func: Any, name: str) -> bool:
    """Whether the compiler makes an operator a part of a larger kernel."""
    return name.rstrip("_") in _FUSED or torch.Tag.pointwise in func.tags
