"""``torch.nn.DataParallel`` with the one GPU of this process, and tensors that are made on it by default."""

from __future__ import annotations

from typing import Any

import torch

from preflight.dryrun.virtual import private


def install() -> None:
    """Replace the scattering, which is native code that this build of PyTorch need not have."""

    def scatter(wrapper: Any, inputs: Any, kwargs: Any, device_ids: Any) -> tuple[Any, Any]:
        def moved(tensor: Any) -> Any:
            return tensor.to("cuda")

        return (
            (private.map_tensors(torch.Tensor, moved, inputs),),
            (private.map_tensors(torch.Tensor, moved, kwargs or {}),),
        )

    set_type = torch.set_default_tensor_type

    def set_default_tensor_type(kind: Any) -> None:
        name = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__name__}"
        if name.startswith("torch.cuda."):
            torch.set_default_device("cuda")
            torch.Tensor.__new__ = _made_on_gpu
            name = "torch." + name[len("torch.cuda.") :]
        set_type(name)

    torch.set_default_tensor_type = set_default_tensor_type
    torch.nn.DataParallel.scatter = scatter


def _made_on_gpu(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Make a tensor by calling its class; that class stands for the default type, which lies on the GPU."""
    made = torch.Tensor.__mro__[1].__new__(cls, *args, **kwargs)
    return made.to("cuda") if cls is torch.Tensor else made
