"""Every private interface of PyTorch that the virtual GPU rests on, each behind a name of its own.

When PyTorch moves one of them, this is the place to change; ``private_names`` lists them with the releases in which
each was seen, and ``private_guard`` has what stands in for a device guard where Python cannot register one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

BACKEND = "vgpu"
"""The name under which PyTorch knows the virtual GPU; scripts see ``cuda``."""


def register_backend(devices: int) -> None:
    """Make a device type of the name ``BACKEND`` known, with as many devices as asked for."""
    from preflight.dryrun.virtual import private_guard

    class Module:
        """What PyTorch asks of a device's module."""

        def is_initialized(self) -> bool:
            return True

        def is_available(self) -> bool:
            return True

        def current_device(self) -> int:
            return 0

        def _is_in_bad_fork(self) -> bool:
            return False

        def manual_seed_all(self, seed: int) -> None:
            """There is no generator to seed."""

        def device_count(self) -> int:
            return devices

        def get_amp_supported_dtype(self) -> list[Any]:
            import torch

            return [torch.float16, torch.bfloat16, torch.float32]

    private_guard.register(Module())


def pass_through(key: str) -> Any:
    """Let operators without a kernel for a dispatch key go on to the next one, as long as what is returned lives."""
    import torch

    library = torch.library.Library("_", "IMPL")
    if torch._C._dispatch_has_backend_fallback(getattr(torch._C.DispatchKey, key)):
        return library
    if hasattr(library, "fallback"):
        library.fallback(torch.library.fallthrough_kernel, key)
    else:  # before 2.6
        library.m.fallback_fallthrough(key)
    return library


def fake_mode() -> Any:
    """Return a new mode in which operators give fake tensors; real tensors may be mixed in."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode(allow_non_fake_inputs=True)
    mode.__deepcopy__ = lambda memo: mode  # a copied module's tensors belong to the same mode
    return mode


def same_in_scripts(function: Any, plain: Any) -> None:
    """Let TorchScript take a function that replaces one of PyTorch's for that one."""
    from torch.jit import _builtins

    name = _builtins._find_builtin(plain)
    if name is not None:
        _builtins._register_builtin(function, name)


def has_storage(tensor: Any) -> bool:
    """Whether a tensor has a storage of its own; sparse ones consist of several tensors."""
    import torch

    return tensor.layout is torch.strided and bool(torch._C._has_storage(tensor))


def no_shape_errors() -> tuple[type[Exception], ...]:
    """Return what a fake tensor raises where it has no rule for the shape of a result."""
    from torch._subclasses import fake_tensor

    names = ("DynamicOutputShapeException", "DataDependentOutputException", "UnsupportedOperatorException")
    found = [getattr(fake_tensor, name) for name in names if hasattr(fake_tensor, name)]
    return (NotImplementedError, ZeroDivisionError, *found)  # some rules divide by the size of an empty tensor


def fake_class() -> Any:
    """Return the class of fake tensors."""
    from torch._subclasses.fake_tensor import FakeTensor

    return FakeTensor


def forget_memo(mode: Any) -> None:
    """Drop the converter's weak references, which would keep two tensors from being swapped."""
    converter = mode.fake_tensor_converter
    converter.tensor_memo.clear()
    describer = getattr(converter.meta_converter, "describer", None)
    if describer is not None:
        describer.lookup_tensor.clear()


def let_referred_tensors_swap() -> None:
    """Let a tensor be moved in place although something refers to it weakly, as it can on a real GPU.

    ``torch.utils.swap_tensors`` refuses to; the reference stays right, since it is to the Python object.
    """
    from types import SimpleNamespace

    import torch

    torch.utils.weakref = SimpleNamespace(getweakrefs=lambda tensor: [])


def leaves(args: Any, kwargs: Any) -> list[Any]:
    """Return the values in nested arguments, flat."""
    from torch.utils import _pytree

    return list(_pytree.arg_tree_leaves(*args, **kwargs))


def map_tensors(kind: Any, change: Callable[[Any], Any], tree: Any) -> Any:
    """Return nested values with those of one class changed."""
    from torch.utils import _pytree

    return _pytree.tree_map_only(kind, change, tree)


def flattened(tree: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """Return the values in a nesting, flat, and a function that makes the same nesting of other values."""
    from torch.utils import _pytree

    found, form = _pytree.tree_flatten(tree)
    return found, lambda values: _pytree.tree_unflatten(values, form)


def sequence_number() -> int:
    """Return the number that the next node of the autograd graph gets on this thread."""
    import torch

    return int(torch._C._autograd._get_sequence_nr())


def running_node_number() -> int | None:
    """Return the number of the autograd node that runs on this thread, or None outside a backward pass."""
    import torch

    node = torch._C._current_autograd_node()
    return None if node is None else int(node._sequence_nr())


@contextmanager
def without_autocast() -> Iterator[None]:
    """Exclude the autocast key of the virtual GPU, so that an operator reaches what lies below."""
    import torch

    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)
    with torch._C._ExcludeDispatchKeyGuard(keys):
        yield


def show_accelerator_as_cuda() -> None:
    """Let PyTorch's own Python code, too, take the virtual GPU for one of CUDA."""
    import torch

    torch._C._get_accelerator = lambda check=None: torch.device("cuda")


def flop_formulas() -> dict[Any, Any]:
    """Return PyTorch's formulas of floating-point operations, by operator."""
    from torch.utils import flop_counter

    found = dict(flop_counter.flop_registry)
    return {
        operator: _with_shared_heads(count) if "attention" in str(operator) else count
        for operator, count in found.items()
    }


def _with_shared_heads(count: Any) -> Any:
    """Up to 2.9 the formulas of attention refuse keys that several queries share: give every query keys of its own."""
    import torch

    def counted(*args: Any, **kwargs: Any) -> Any:
        try:
            return count(*args, **kwargs)
        except AssertionError:
            heads = max(
                (value.shape[1] for value in args if isinstance(value, torch.Tensor) and value.dim() == 4), default=1
            )

            def whole(value: Any) -> Any:
                if not isinstance(value, torch.Tensor) or value.dim() != 4 or value.shape[1] == heads:
                    return value
                return torch.empty((value.shape[0], heads, *value.shape[2:]), device="meta")

            return count(*map(whole, args), **kwargs)

    return counted


def keep_recurrent_weights() -> None:
    """Leave the weights of LSTM and GRU where they are: builds for CUDA would ask the driver how to pack them."""
    import torch

    torch._use_cudnn_rnn_flatten_weight = lambda: False


def allows_tf32(product: bool) -> bool:
    """Whether matrix products (or else convolutions) in fp32 may use TF32."""
    import torch

    try:
        return bool(torch.backends.cuda.matmul.allow_tf32 if product else torch.backends.cudnn.allow_tf32)
    except RuntimeError:  # the newer and the older way to ask for it were mixed
        return bool(torch.get_float32_matmul_precision() != "highest")
