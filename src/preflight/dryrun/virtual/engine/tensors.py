"""What a tensor of the virtual GPU says of itself: that it lies on ``cuda``."""

from __future__ import annotations

from typing import Any

import torch

from preflight.dryrun.virtual import private, private_guard
from preflight.dryrun.virtual.engine import gpu as virtual

Fake = private.fake_class()
_to, _type, _numpy = torch.Tensor.to, torch.Tensor.type, torch.Tensor.numpy


def translate(value: Any, device: torch.device) -> Any:
    """Return the true device for one that names a GPU."""
    if isinstance(value, torch.device):
        return device if value.type == "cuda" else value
    if isinstance(value, str):
        return device if value.split(":")[0] == "cuda" else value
    return value


def install(gpu: virtual.VirtualGpu) -> None:
    """Change the class of fake tensors, and the functions that make a tensor from Python values.

    Operators find the true device by another way (``prim::device``); the attributes here are what Python code sees.
    """
    _install_devices(gpu)
    _install_moves(gpu)
    _install_types_of(gpu)
    _install_numbers()
    Fake.__deepcopy__ = _deepcopy
    _install_constructors(gpu)


def _on_gpu(tensor: Any) -> bool:
    return bool(tensor.fake_device.type == private.BACKEND)


def _install_devices(gpu: virtual.VirtualGpu) -> None:
    """Let a tensor say that it lies on ``cuda``, and where in its memory."""
    true_device = Fake.device.fget

    def device(tensor: Any) -> torch.device:
        if virtual.inside() or not _on_gpu(tensor):
            return true_device(tensor)
        return torch.device("cuda", gpu.index)

    Fake.device = property(device)
    Fake.is_cuda = property(_on_gpu)
    Fake.__repr__ = lambda tensor, **_: f"tensor(..., device='{device(tensor)}', size={tuple(tensor.shape)})"
    Fake.data_ptr = lambda tensor: (
        tensor.untyped_storage().data_ptr() + tensor.storage_offset() * tensor.element_size() if tensor.numel() else 0
    )
    Fake.record_stream = lambda tensor, stream: None


def _install_moves(gpu: virtual.VirtualGpu) -> None:
    """Let ``to`` and ``cuda`` put a tensor on the virtual GPU, by any name or number of a device."""

    def wanted(value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            return gpu.device
        return translate(value, gpu.device)

    def to(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if not virtual.inside():
            args = tuple(wanted(a) for a in args)
            kwargs = {key: wanted(value) for key, value in kwargs.items()}
        args = tuple(map(private_guard.target, args))
        kwargs = {key: private_guard.target(value) for key, value in kwargs.items()}
        return _to(tensor, *args, **kwargs)

    def cuda(tensor: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Any:
        return tensor if isinstance(tensor, Fake) and _on_gpu(tensor) else _to(tensor, gpu.device)

    Fake.to = torch.Tensor.to = to
    Fake.cuda = torch.Tensor.cuda = cuda
    Fake.pin_memory = torch.Tensor.pin_memory = lambda tensor, device=None: tensor


def _install_types_of(gpu: virtual.VirtualGpu) -> None:
    """Let ``type`` name the types of CUDA and take their names."""
    names = {"torch.float32": "FloatTensor", "torch.float16": "HalfTensor", "torch.int64": "LongTensor"}

    def type_(tensor: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        if dtype is None and isinstance(tensor, Fake) and _on_gpu(tensor):
            return "torch.cuda." + names.get(str(tensor.dtype), f"{str(tensor.dtype)[6:].title()}Tensor")
        named = getattr(dtype, "__name__", "") if getattr(dtype, "__module__", "") == "torch.cuda" else ""
        if named or (isinstance(dtype, str) and dtype.startswith("torch.cuda.")):
            return _to(tensor, gpu.device, _TYPES[named or dtype.rpartition(".")[2]])
        return _type(tensor, dtype, *args, **kwargs)

    Fake.type = torch.Tensor.type = type_


def _install_numbers() -> None:
    """Let numbers be asked for as on a real GPU: by way of the host."""

    def numpy(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if _on_gpu(tensor):
            raise TypeError(
                f"can't convert {tensor.device} device type tensor to numpy. "
                "Use Tensor.cpu() to copy the tensor to host memory first."
            )
        return _numpy(tensor, *args, **kwargs)

    Fake.numpy = Fake.__array__ = numpy
    Fake.tolist = lambda tensor: tensor.cpu().tolist()
    Fake.__format__ = lambda tensor, how: format(tensor.item() if tensor.dim() == 0 else repr(tensor), how)


def _deepcopy(tensor: Any, memo: dict[int, Any]) -> Any:
    """Copy a tensor; tensors that share a storage share the copy of it.

    Raises:
        RuntimeError: It is not a leaf, as in PyTorch.
    """
    if id(tensor) in memo:
        return memo[id(tensor)]
    if KEEPING:
        memo[id(tensor)] = KEEPING[-1](tensor, memo)
        return memo[id(tensor)]
    if not tensor.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment."
        )
    with torch.no_grad():
        storage = tensor.untyped_storage()
        if tensor.numel() * tensor.element_size() == storage.nbytes():
            new = tensor.detach().clone(memory_format=torch.preserve_format)
        else:
            key = storage._cdata, tensor.dtype
            whole = memo.get(key)  # type: ignore[call-overload]
            if whole is None:
                count = storage.nbytes() // tensor.element_size()
                whole = torch.empty(count, dtype=tensor.dtype, device=tensor.device)
                memo[key] = whole  # type: ignore[index]
            new = whole.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
    if isinstance(tensor, torch.nn.Parameter):
        new = torch.nn.Parameter(new, tensor.requires_grad)
    else:
        new.requires_grad_(tensor.requires_grad)
    memo[id(tensor)] = new
    if tensor.grad is not None and not isinstance(tensor, torch.nn.Parameter):
        new.grad = _deepcopy(tensor.grad, memo)
    return new


KEEPING: list[Any] = []
"""While something is saved: what makes the note of a tensor that goes into the file."""


def _install_constructors(gpu: virtual.VirtualGpu) -> None:
    """``torch.tensor(..., device="cuda")`` copies to the device below Python's reach: make it on the host, then move it."""

    def moved(make: Any) -> Any:
        def build(*args: Any, **kwargs: Any) -> Any:
            device = kwargs.pop("device", None)
            wanted = translate(torch.device(device) if isinstance(device, int) else device, gpu.device)
            gradient = kwargs.pop("requires_grad", False)
            made = make(*args, **kwargs)
            if wanted is not None and torch.device(wanted) != made.device:
                made = torch.Tensor.to(made, wanted)
            return made.requires_grad_() if gradient else made

        build.__name__, build.__doc__ = make.__name__, make.__doc__
        return build

    def new_tensor(tensor: Any, data: Any, **kwargs: Any) -> Any:
        kwargs.setdefault("dtype", tensor.dtype)
        kwargs.setdefault("device", torch.device("cuda") if tensor.is_cuda else tensor.device)
        return torch.tensor(data, **kwargs)

    for name in ("tensor", "as_tensor", "asarray"):
        plain = getattr(torch, name)
        setattr(torch, name, moved(plain))
        private.same_in_scripts(getattr(torch, name), plain)
    _install_types(torch.tensor, gpu)
    Fake.new_tensor = new_tensor
    original_swap = torch.utils.swap_tensors

    def swap(first: Any, second: Any) -> None:
        private.forget_memo(gpu.fake)
        original_swap(first, second)

    torch.utils.swap_tensors = swap
    private.let_referred_tensors_swap()
    # A module that is moved keeps its parameters' identity, as on a real GPU: an optimizer made before still holds them.
    torch.__future__.set_swap_module_params_on_conversion(True)
    _keep_attributes(gpu)


def _keep_attributes(gpu: virtual.VirtualGpu) -> None:
    """Leave a moved parameter what a script wrote on it (``p.no_decay = True``): a swap exchanges that with the contents."""
    apply = torch.nn.Module._apply
    with gpu.fake:
        private_names = frozenset(vars(torch.nn.Parameter(torch.empty(0))))

    def applied(module: Any, *args: Any, **kwargs: Any) -> Any:
        written = [
            (one, {name: value for name, value in vars(one).items() if name not in private_names})
            for one in module._parameters.values()
            if one is not None
        ]
        result = apply(module, *args, **kwargs)
        for one, names in written:
            for name, value in names.items():
                vars(one).setdefault(name, value)
        return result

    torch.nn.Module._apply = applied  # type: ignore[method-assign, unused-ignore]


_TYPES = {
    "FloatTensor": torch.float32,
    "DoubleTensor": torch.float64,
    "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16,
    "LongTensor": torch.int64,
    "IntTensor": torch.int32,
    "ShortTensor": torch.int16,
    "CharTensor": torch.int8,
    "ByteTensor": torch.uint8,
    "BoolTensor": torch.bool,
}


def _install_types(tensor: Any, gpu: virtual.VirtualGpu) -> None:
    """``torch.cuda.FloatTensor`` and its kin, which make tensors and tell them by type."""

    class Kind(type):
        dtype: torch.dtype

        def __call__(cls, *args: Any) -> Any:
            if args and not all(isinstance(arg, int) for arg in args):
                made = tensor(args[0] if not isinstance(args[0], torch.Size) else torch.empty(args[0]), dtype=cls.dtype)
                return torch.Tensor.to(made, gpu.device)
            return torch.empty(args or (0,), dtype=cls.dtype, device=gpu.device)

        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, torch.Tensor) and bool(value.is_cuda) and value.dtype is cls.dtype

    for name, dtype in _TYPES.items():
        setattr(torch.cuda, name, Kind(name, (), {"dtype": dtype, "__module__": "torch.cuda"}))
