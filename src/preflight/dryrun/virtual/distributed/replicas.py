"""``DistributedDataParallel`` without its C++ reducer, which knows no fake tensors: the same memory, the same collectives.

Source of the arithmetic: ``torch/nn/parallel/distributed.py`` and ``torch/csrc/distributed/c10d/reducer.cpp``: parameters
are filled into buckets in the reverse order of registration, the first of 1 MiB and the others of ``bucket_cap_mb`` (25);
the flat tensors of the buckets live as long as the module. With ``gradient_as_bucket_view`` they are the gradients.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from preflight.dryrun.virtual import private
from preflight.dryrun.virtual.engine.gpu import Fake, VirtualGpu
from preflight.dryrun.virtual.memory import ledger as words

FIRST_BUCKET = 1 << 20
BROADCAST = 250 << 20  # parameters are sent in pieces of this size when the module is made; two are under way at once


class Bucket:
    """Parameters whose gradients are reduced together.

    Attributes:
        members: Index of a parameter to the place of its gradient in the flat tensor: first element, elements.
    """

    def __init__(self, parameters: list[tuple[int, Any]]) -> None:
        self.members: dict[int, tuple[int, int]] = {}
        at = 0
        for index, parameter in parameters:
            self.members[index] = (at, parameter.numel())
            at += parameter.numel()
        first = parameters[0][1]
        self.flat = torch.empty(at, dtype=first.dtype, device=first.device)
        self.waiting = set(self.members)


def fill(parameters: list[Any], cap: int) -> list[list[tuple[int, Any]]]:
    """Return the parameters of every bucket: by type, in reverse order, a bucket closed once it has reached its size."""
    done: list[list[tuple[int, Any]]] = []
    limits = [FIRST_BUCKET, cap]
    open_: dict[Any, tuple[list[tuple[int, Any]], int, int]] = {}
    for index in reversed(range(len(parameters))):
        parameter = parameters[index]
        content, size, turn = open_.pop(parameter.dtype, ([], 0, 0))
        content.append((index, parameter))
        size += parameter.numel() * parameter.element_size()
        if size >= limits[min(turn, 1)]:
            done.append(content)
            open_[parameter.dtype] = ([], 0, turn + 1)
        else:
            open_[parameter.dtype] = (content, size, turn)
    return done + [content for content, _, _ in open_.values() if content]


class Reducer:
    """The buckets of one wrapped module.

    Args:
        gpu: The virtual GPU.
        module: The module.
        cap: Bytes of a bucket.
        views: ``gradient_as_bucket_view``.
        lenient: Parameters may stay without a gradient (``find_unused_parameters``, ``static_graph``).
        size: Number of ranks.
    """

    def __init__(self, gpu: VirtualGpu, module: Any, cap: int, views: bool, lenient: bool, size: int) -> None:
        self.gpu, self.views, self.lenient, self.size = gpu, views, lenient, size
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        self.sync, self.expects = True, False
        self.group: Any = None
        self.names = {id(p): name for name, p in module.named_parameters()}
        self.buckets = [Bucket(content) for content in fill(self.parameters, cap)]
        self.of: dict[int, Bucket] = {}
        for bucket in self.buckets:
            self.of.update(dict.fromkeys(bucket.members, bucket))
            if isinstance(bucket.flat, Fake):
                kind = words.GRADIENT if views else words.COMMUNICATION
                gpu.ledger.classify(bucket.flat.untyped_storage(), kind, "DistributedDataParallel")
        for index, parameter in enumerate(self.parameters):
            parameter.register_post_accumulate_grad_hook(self._hook(index))

    def _hook(self, index: int) -> Any:
        def ready(parameter: Any) -> None:
            if not self.sync:
                return
            bucket = self.of[index]
            if self.views:
                at, count = bucket.members[index]
                parameter.grad = bucket.flat[at : at + count].view(parameter.shape)
            bucket.waiting.discard(index)
            if not bucket.waiting:
                self._reduce(bucket)

        return ready

    def _reduce(self, bucket: Bucket) -> None:
        flat = bucket.flat
        self.gpu.communicated("allreduce_", flat.numel() * flat.element_size(), self.size, self.group)

    def before_forward(self) -> None:
        """Begin a round; as in PyTorch, one that was not finished is an error.

        Raises:
            RuntimeError: A parameter got no gradient in the last round.
        """
        left = [index for bucket in self.buckets for index in bucket.waiting]
        if self.expects and left and len(left) < len(self.parameters) and not self.lenient:
            names = ", ".join(self.names[id(self.parameters[index])] for index in sorted(left)[:10])
            raise RuntimeError(
                "Expected to have finished reduction in the prior iteration before starting a new one: "
                f"{len(left)} parameters got no gradient and took no part in the reduction ({names}); "
                "find_unused_parameters=True lets them"
            )
        if self.expects:
            of = len(self.parameters)
            self.gpu.seen.note("round of replicas", lenient=self.lenient, unused=len(left), of=of)
        for bucket in self.buckets:
            bucket.waiting = set(bucket.members)
        self.expects = self.sync


_PARAMETERS = (
    "device_ids output_device dim broadcast_buffers init_sync process_group bucket_cap_mb "
    "find_unused_parameters check_reduction gradient_as_bucket_view static_graph"
).split()
"""The arguments of ``DistributedDataParallel`` after the module, in the order of PyTorch."""


def install(gpu: VirtualGpu) -> None:
    """Give ``DistributedDataParallel`` methods that need no reducer; it stays the same class."""
    from torch.nn.parallel import DistributedDataParallel as Wrapper

    Wrapper.__init__, Wrapper.forward, Wrapper.no_sync = _making(gpu), _passing(gpu), _no_sync
    Wrapper.join = lambda self, *args, **kwargs: contextlib.nullcontext()
    Wrapper.register_comm_hook = lambda self, state, hook: None
    Wrapper._set_static_graph = lambda self: setattr(self.__dict__["_reducer"], "lenient", True)
    Wrapper._get_ddp_logging_data = lambda self: {}
    Wrapper.__getstate__ = lambda self: self.__dict__


def _making(gpu: VirtualGpu) -> Any:
    def make(self: Any, module: Any, *args: Any, **kwargs: Any) -> None:
        given = dict(zip(_PARAMETERS, args, strict=False)) | kwargs
        torch.nn.Module.__init__(self)
        if not any(p.requires_grad for p in module.parameters()):
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient."
            )
        self.module = module
        self.device = next(module.parameters()).device
        self.device_ids, self.output_device, self.dim = given.get("device_ids"), given.get("output_device"), 0
        self.broadcast_buffers = given.get("broadcast_buffers", True)
        self.find_unused_parameters = bool(given.get("find_unused_parameters"))
        self.gradient_as_bucket_view = bool(given.get("gradient_as_bucket_view"))
        self.static_graph = bool(given.get("static_graph"))
        self.require_backward_grad_sync, self.parameters_to_ignore = True, set()
        self.process_group = given.get("process_group") or torch.distributed.group.WORLD
        size = torch.distributed.get_world_size(self.process_group)
        gpu.seen.note("replicas made", find_unused=self.find_unused_parameters, static=self.static_graph)
        if given.get("init_sync", True):
            _send(gpu, [*module.parameters(), *module.buffers()], size, self.process_group)
        cap = given.get("bucket_cap_mb")
        lenient = self.find_unused_parameters or self.static_graph
        self.__dict__["_reducer"] = Reducer(
            gpu, module, int((25 if cap is None else cap) * (1 << 20)), self.gradient_as_bucket_view, lenient, size
        )
        self.__dict__["_reducer"].group = self.process_group

    return make


def _passing(gpu: VirtualGpu) -> Any:
    def forward(self: Any, *inputs: Any, **kwargs: Any) -> Any:
        reducer = self.__dict__["_reducer"]
        reducer.sync = self.require_backward_grad_sync
        if torch.is_grad_enabled():
            reducer.before_forward()
        if self.broadcast_buffers and self.training and self.require_backward_grad_sync:
            _send(gpu, list(self.module.buffers()), reducer.size, self.process_group)
        device = self.device
        if self.device_ids:
            inputs, kwargs = private.map_tensors(torch.Tensor, lambda t: t.to(device), (inputs, kwargs))
        return self.module(*inputs, **kwargs)

    return forward


@contextlib.contextmanager
def _no_sync(self: Any) -> Iterator[None]:
    before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
    try:
        yield
    finally:
        self.require_backward_grad_sync = before


def _send(gpu: VirtualGpu, tensors: list[Any], size: int, group: Any) -> None:
    """Broadcast tensors from the first rank: they are put into flat pieces, of which two exist at a time."""
    under_way: list[Any] = []
    by_type: dict[Any, int] = {}
    for tensor in tensors:
        if isinstance(tensor, Fake):
            by_type[tensor.dtype] = by_type.get(tensor.dtype, 0) + tensor.numel() * tensor.element_size()
    for total in by_type.values():
        for start in range(0, total, BROADCAST):
            del under_way[:-1]
            piece = torch.empty(min(BROADCAST, total - start), dtype=torch.uint8, device=gpu.device)
            gpu.ledger.classify(piece.untyped_storage(), words.COMMUNICATION, "DistributedDataParallel")
            gpu.communicated("broadcast_", piece.numel(), size, group)
            under_way.append(piece)
