"""The device type of the virtual GPU in PyTorch's C++, with a device guard of its own or without one.

Autograd asks the guard of a tensor's device type for streams. From 2.10 on Python may register a guard. Before, a tensor
of the virtual GPU tells C++ of a device whose guard does nothing and is in every build: ``meta``, with an index, which
true meta tensors do not have. Its dispatch keys stay those of the virtual GPU, and Python code, which reads the device
from the fake tensor, does not notice. Where C++ makes a tensor on the device that it was told of, it is made on the GPU.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import backend_registration

from preflight.dryrun.virtual import private
from preflight.dryrun.virtual.private import BACKEND

OWN = torch.device("meta", 0)
"""What C++ is told where it has no guard for the virtual GPU."""

_MARK = "_on_the_virtual_gpu"
_register = getattr(backend_registration, "_setup_privateuseone_for_python_backend", None)
_kept: list[Any] = []  # a library lives as long as its registrations
_guarded: list[bool] = []  # whether the backend was registered with a guard, once it was


def register(module: Any) -> None:
    """Make the device type known.

    Args:
        module: What PyTorch asks of a device's module.
    """
    _guarded.append(_register is not None)
    if _register is not None:
        _register(BACKEND, module, device_guard=_guard())
        return
    torch.utils.rename_privateuse1_backend(BACKEND)
    torch.utils.generate_methods_for_privateuse1_backend()
    torch._register_device_module(BACKEND, module)
    # Operators without a derivative, those of torch.distributed among them, go on; from 2.10 on PyTorch sees to that.
    _kept.append(private.pass_through("AutogradPrivateUse1"))
    _teach_fake_tensors()
    _teach_grouping()
    _teach_distributed_tensors()


_raised: list[BaseException] = []
"""Exceptions of a hook or an operator in a backward pass that were taken from below C++."""


def _guard() -> Any:
    """Return a device guard that can be asked while an exception is on its way through C++.

    Leaving a node of the graph, autograd restores the stream, and asks the guard for its type. PyTorch's own answer would be
    taken for a failure then, as an exception is pending, and end the process. It is taken out of the way here instead.
    """
    from ctypes import pythonapi

    occurred, kind = pythonapi.PyErr_Occurred, torch._C._autograd.DeviceType.PrivateUse1

    class Guard(torch._C._acc.DeviceGuard):  # type: ignore[name-defined, misc, unused-ignore]
        """The guard of the virtual GPU."""

        def type_(self) -> Any:
            """Return the type of its devices."""
            try:
                occurred()  # whatever is called by way of ctypes raises what is pending
            except BaseException as error:
                _raised.append(error.with_traceback(error.__traceback__ and error.__traceback__.tb_next))
            return kind

    return Guard()


def begin_backward() -> None:
    """Forget what was raised in earlier backward passes."""
    _raised.clear()


def raised_below() -> BaseException | None:
    """Return the exception that was taken out of the way since the last backward pass began, once."""
    return _raised.pop() if _raised else None


def told(device: torch.device) -> torch.device:
    """Return what C++ is told where a tensor lies on a device."""
    return OWN if device.type == BACKEND and not _guarded[0] else device


def means_gpu(device: Any) -> bool:
    """Whether an operator that is asked for a tensor on a device has to make it on the virtual GPU."""
    return device is not None and (device.type == "cuda" or (not _guarded[0] and device == OWN))


def target(value: Any) -> Any:
    """Return an argument of ``Tensor.to`` as C++ has to see it, which compares it with the device that it was told of."""
    if _guarded[0]:
        return value
    if isinstance(value, str):
        return OWN if value.partition(":")[0] == BACKEND else value
    return told(value) if isinstance(value, torch.device) else value


def true(device: torch.device) -> torch.device:
    """Return the device behind what C++ says where a tensor lies."""
    return torch.device(BACKEND, 0) if device == OWN and not _guarded[0] else device


def asked(tensor: Any, func: Any) -> torch.device:
    """Return what C++ is told where a tensor lies, for whose device it asks Python."""
    found = getattr(tensor, "fake_device", None)
    if found is not None:
        return told(found)
    return OWN if getattr(tensor, _MARK, False) else func(tensor)


def wrap(make: Any, kind: Any, args: Any, kwargs: Any) -> Any:
    """Make a tensor that wraps tensors of the virtual GPU, so that C++ asks Python for its device, too."""
    device = kwargs.get("device")
    if _guarded[0] or device is None or torch.device(device).type != BACKEND:
        return make(kind, *args, **kwargs)
    _teach(kind)
    made = make(kind, *args, **{**kwargs, "dispatch_device": True})
    setattr(made, _MARK, True)
    return made


def _teach_fake_tensors() -> None:
    """Let fake tensors and their mode answer where no mode of ours is active: within an operator, in other threads."""
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    _teach(FakeTensor)
    FakeTensor.is_meta = property(lambda tensor: tensor.fake_device.type == "meta")
    run = FakeTensorMode.__torch_dispatch__

    def dispatch(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.prim.device.default and not self.in_kernel_invocation:
            return asked(args[0], func)
        if kwargs and kwargs.get("device") == OWN:
            kwargs = {**kwargs, "device": torch.device(BACKEND, 0)}
        return run(self, func, types, args, kwargs or {})

    FakeTensorMode.__torch_dispatch__ = dispatch


def _teach(kind: Any) -> None:
    """Let a class of tensors answer when C++ asks for the device."""
    if _MARK in kind.__dict__:
        return
    setattr(kind, _MARK, False)
    run = kind.__torch_dispatch__

    def dispatch(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.prim.device.default and not _in_kernel(args[0]):
            return asked(args[0], func)
        return run(func, types, args, kwargs or {})

    kind.__torch_dispatch__ = classmethod(dispatch)


def _in_kernel(tensor: Any) -> bool:
    mode = getattr(tensor, "fake_mode", None)
    return mode is not None and bool(mode.in_kernel_invocation)


def _teach_grouping() -> None:
    """Multi-tensor optimizers read devices from what C++ grouped."""
    plain, gpu = torch._C._group_tensors_by_device_and_dtype, torch.device(BACKEND, 0)

    def group(*args: Any, **kwargs: Any) -> Any:
        found = plain(*args, **kwargs)
        return {(gpu if device == OWN else device, dtype): value for (device, dtype), value in found.items()}

    torch._C._group_tensors_by_device_and_dtype = group


def _teach_distributed_tensors() -> None:
    """In 2.9 C++ makes a DTensor on the device that it is told of; let it be made as before."""
    if not hasattr(torch.Tensor, "_make_dtensor"):
        return

    def make(kind: Any, size: Any, stride: Any, local: Any, requires_grad: bool) -> Any:
        return torch.Tensor._make_wrapper_subclass(
            kind,
            size,
            strides=stride,
            dtype=local.dtype,
            device=local.device,
            layout=local.layout,
            requires_grad=requires_grad,
        )

    torch.Tensor._make_dtensor = staticmethod(make)
