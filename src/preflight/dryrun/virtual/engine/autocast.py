"""Mixed precision on the virtual GPU, by the lists of CUDA's autocast.

PyTorch picks the precision by a dispatch key of the device, and has no lists for a device that it does not know. Which
operators CUDA treats is asked of PyTorch itself; how it treats them stands in the tables below.

Source: the operator reference of ``torch.amp`` and ``aten/src/ATen/autocast_mode.h``.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

from preflight.dryrun.virtual import private

FULL = frozenset(
    "acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow softplus layer_norm "
    "native_layer_norm group_norm frobenius_norm nuclear_norm cosine_similarity poisson_nll_loss "
    "cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss "
    "margin_ranking_loss multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss "
    "binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp upsample_nearest1d _upsample_nearest_exact1d "
    "upsample_nearest2d _upsample_nearest_exact2d upsample_nearest3d _upsample_nearest_exact3d upsample_linear1d "
    "upsample_bilinear2d _upsample_bilinear2d_aa upsample_trilinear3d upsample_bicubic2d _upsample_bicubic2d_aa "
    "fft_fft fft_ifft fft_fft2 fft_ifft2 fft_fftn fft_ifftn fft_rfft fft_irfft fft_rfft2 fft_irfft2 fft_rfftn "
    "fft_irfftn fft_hfft fft_ihfft linalg_vector_norm linalg_matrix_norm norm stft rms_norm".split()
)
"""Inputs in half precision are turned into fp32."""
FULL_RESULT = frozenset("prod softmax log_softmax cumprod cumsum sum linalg_vector_norm linalg_matrix_norm".split())
"""The result is asked for in fp32 where no type is given; the input stays as it is."""
WIDEST = frozenset(
    "addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler grid_sample index_put tensordot scatter_add cat stack "
    "_grouped_mm".split()
)
"""All inputs are turned into the widest type among them."""
REFUSED = frozenset(("binary_cross_entropy",))


class WeightCache:
    """The low-precision copies of parameters that autocast keeps until the outermost region ends."""

    def __init__(self) -> None:
        self._copies: dict[int, tuple[Any, Any]] = {}

    def get(self, tensor: Any, dtype: torch.dtype) -> Any:
        """Return the copy of a parameter, made once."""
        found = self._copies.get(id(tensor))
        if found is not None and found[0]() is tensor:
            return found[1]
        copy = tensor.to(dtype)
        self._copies[id(tensor)] = (weakref.ref(tensor), copy)
        return copy

    def clear(self) -> None:
        """Forget all copies."""
        self._copies.clear()


CACHE = WeightCache()
_kept: list[Any] = []  # a library lives as long as its registrations


def install() -> None:
    """Register the kernels, and let what is switched on for ``cuda`` be on for the virtual GPU."""
    library = torch.library.Library("aten", "IMPL")
    _kept.extend((private.pass_through("AutocastPrivateUse1"), library))
    for name in torch._C._dispatch_get_all_op_names():
        if name.startswith("aten::") and torch._C._dispatch_has_kernel_for_dispatch_key(name, "AutocastCUDA"):
            plain, _, overload = name[len("aten::") :].partition(".")
            operator = getattr(getattr(torch.ops.aten, plain), overload or "default")
            library.impl(name[len("aten::") :], _kernel(plain, operator), "AutocastPrivateUse1")
    _mirror()


def _kernel(name: str, operator: Any) -> Any:
    def lower(*args: Any, **kwargs: Any) -> Any:
        dtype = torch.get_autocast_dtype("cuda")
        with private.without_autocast():
            return operator(*_cast(args, dtype), **_cast(kwargs, dtype))

    def full(*args: Any, **kwargs: Any) -> Any:
        with private.without_autocast():
            return operator(*_cast(args, torch.float32), **_cast(kwargs, torch.float32))

    def full_result(*args: Any, **kwargs: Any) -> Any:
        with private.without_autocast():
            if _is_half(args[0]) and kwargs.get("dtype") is None and not any(isinstance(a, torch.dtype) for a in args):
                return operator(*args, **{**kwargs, "dtype": torch.float32})
            return operator(*args, **kwargs)

    def widest(*args: Any, **kwargs: Any) -> Any:
        found = [t.dtype for t in private.leaves(args, kwargs) if isinstance(t, torch.Tensor) and t.is_floating_point()]
        with private.without_autocast():
            if torch.float32 in found and len(set(found)) > 1:
                return operator(*_cast(args, torch.float32), **_cast(kwargs, torch.float32))
            return operator(*args, **kwargs)

    def refused(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
            "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
            "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
            "or torch.nn.BCEWithLogitsLoss. binary_cross_entropy_with_logits and BCEWithLogits are\nsafe to autocast."
        )

    if name in REFUSED:
        return refused
    if name in FULL_RESULT and any(a.name == "dtype" for a in operator._schema.arguments):
        return full_result
    if name in FULL or name in FULL_RESULT:
        return full
    return widest if name in WIDEST else lower


def _is_half(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in (torch.float16, torch.bfloat16)


def _cast(tree: Any, dtype: torch.dtype) -> Any:
    """Return arguments in another floating-point type; a parameter's copy comes from the cache."""

    def change(tensor: Any) -> Any:
        if not tensor.is_floating_point() or tensor.dtype in (dtype, torch.float64) or not tensor.is_cuda:
            return tensor
        keep = (
            tensor.requires_grad
            and tensor.is_leaf
            and tensor.dtype == torch.float32
            and dtype != torch.float32
            and torch.is_autocast_cache_enabled()
        )
        return CACHE.get(tensor, dtype) if keep else tensor.to(dtype)

    return private.map_tensors(torch.Tensor, change, tree)


def _mirror() -> None:
    switch, clear = torch.set_autocast_enabled, torch.clear_autocast_cache

    def set_enabled(*args: Any) -> None:
        switch(*args)
        device, enabled = args if len(args) == 2 else ("cuda", args[0])
        if device == "cuda":
            switch(private.BACKEND, enabled)

    def clear_cache() -> None:
        CACHE.clear()
        clear()

    torch.set_autocast_enabled = set_enabled
    torch.clear_autocast_cache = clear_cache
    for holder in (torch.amp.autocast_mode, torch.cuda.amp.autocast_mode):
        for name, function in (("set_autocast_enabled", set_enabled), ("clear_autocast_cache", clear_cache)):
            if hasattr(holder, name):
                setattr(holder, name, function)
