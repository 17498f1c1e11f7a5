"""Process groups, collectives, and the wrappers that keep replicas equal."""

from __future__ import annotations

import sys
from typing import Any

from .digest import norms
from .digests import dtype_of
from .entry import Entry
from .importing import Imports
from .naming import Names
from .patching import Patches
from .recorder import Recorder
from .state import States
from .variables import Variables

COLLECTIVES = (
    *("all_reduce", "broadcast", "all_gather", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor"),
    *("all_to_all", "all_to_all_single", "reduce", "gather", "scatter", "barrier", "send", "recv", "isend", "irecv"),
    *("batch_isend_irecv", "all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list"),
)
_LEAST_SUMMAND = 16


class Distributed:
    """Watches ``torch.distributed`` and the parallel wrappers."""

    def __init__(self, recorder: Recorder, names: Names, variables: Variables, states: States, begin: Any) -> None:
        self.recorder = recorder
        self.states = states
        # How many backward passes there were when gradients were last looked at before an exchange.
        self._exchanged = -1
        self.names = names
        self.variables = variables
        self._begin = begin
        self._groups: dict[int, int] = {}
        self._told = False  # who takes part

    def install(self, patches: Patches, imports: Imports) -> None:
        """Put the watching functions in place, those of modules that come later when they come."""
        dist = self.recorder.torch.distributed
        if not dist.is_available():
            return
        low = sys.modules["torch.distributed.distributed_c10d"]
        self._both(patches, low, dist, "init_process_group", self._initialising, self._initialised)
        self._both(
            patches, low, dist, "new_group", lambda args, kwargs: self.recorder.enter("group.new"), self._grouped
        )
        for word in COLLECTIVES:
            if hasattr(low, word):
                self._both(patches, low, dist, word, self._collective(word), None)
        parallel = sys.modules["torch.nn.parallel.distributed"]
        patches.around(parallel.DistributedDataParallel, "__init__", self._wrapping("wrap.ddp"), self._wrapped_ddp)
        patches.around(parallel.DistributedDataParallel, "no_sync", self._no_sync)
        patches.around(parallel.DistributedDataParallel, "register_comm_hook", self._hooking)
        joining = sys.modules.get("torch.distributed.algorithms.join")
        if joining is not None:  # it comes with the wrapper
            patches.around(joining.Join, "__exit__", lambda args, kwargs: self.recorder.enter("join.left"))
        imports.when("torch.distributed.fsdp", lambda module: self._fsdp(patches, module))
        # Where it stands in PyTorch 2.4 and 2.5.
        imports.when("torch.distributed._composable.fsdp", lambda module: self._fsdp(patches, module))
        imports.when("torch.distributed.tensor.parallel", lambda module: self._tensor_parallel(patches, module))

    def _both(self, patches: Patches, low: Any, high: Any, word: str, before: Any, after: Any) -> None:
        patches.around(low, word, before, after)
        patches.alias(low, word, high)

    def _fsdp(self, patches: Patches, module: Any) -> None:
        if hasattr(module, "fully_shard"):
            patches.around(module, "fully_shard", self._wrapping("wrap.fsdp2"), self._wrapped)
        old = getattr(module, "FullyShardedDataParallel", None)
        if old is not None:
            patches.around(old, "__init__", self._wrapping("wrap.fsdp1"), self._wrapped)

    def _tensor_parallel(self, patches: Patches, module: Any) -> None:
        patches.around(module, "parallelize_module", self._wrapping("wrap.tp"), self._wrapped)

    # -- groups

    def _initialising(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        return self.recorder.enter("group.new", "world")

    def _initialised(self, entry: Entry | None, value: Any, error: BaseException | None) -> None:
        if entry is None:
            return
        recorder = self.recorder
        recorder.leave(entry, None, error)
        if error is None:
            self._tell()

    def resume(self) -> None:
        """After a pause, tell who takes part where that was settled meanwhile."""
        if not self._told:
            self._tell()

    def _tell(self) -> None:
        """Tell who takes part, where a process group is there."""
        recorder, dist = self.recorder, self.recorder.torch.distributed
        if dist.is_available() and dist.is_initialized():
            self._told = True
            self._begin()
            ranks = list(range(dist.get_world_size()))
            recorder.put("group", (recorder.number(), 0, "world", ranks, dist.get_backend()))

    def _grouped(self, entry: Entry | None, value: Any, error: BaseException | None) -> None:
        if entry is None:
            return
        self.recorder.leave(entry, None, error)
        if error is None:
            self.group(value)

    def group(self, group: Any) -> int:
        """The number of a group; its ranks are told the first time."""
        if group is None:
            return 0
        known = self._groups.get(id(group))
        if known is None:
            dist = self.recorder.torch.distributed
            if group is dist.group.WORLD:
                return 0
            known = self._groups[id(group)] = len(self._groups) + 1
            try:
                ranks = dist.get_process_group_ranks(group)
            except Exception:
                ranks = []
            row = (self.recorder.number(), known, getattr(group, "group_desc", "") or "", list(ranks), "")
            self.recorder.put("group", row)
        return known

    # -- collectives

    def _collective(self, word: str) -> Any:
        def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
            recorder = self.recorder
            tensor_type = recorder.torch.Tensor
            seen: dict[str, Any] = {}
            for value in (*args, *kwargs.values()):
                one = value[0] if isinstance(value, (list, tuple)) and value else value
                if isinstance(one, tensor_type):
                    seen["shape"] = list(one.shape)
                    seen["dtype"] = dtype_of(one)
                    break
            if kwargs.get("op") is not None:
                seen["op"] = str(kwargs["op"]).rsplit(".", 1)[-1]
            for key in ("src", "dst", "async_op"):
                if isinstance(kwargs.get(key), (int, bool)):
                    seen[key] = kwargs[key]
            group = kwargs.get("group")
            if group is None:
                kind = type(recorder.torch.distributed.group.WORLD)
                group = next((value for value in args if type(value) is kind), None)
            if word == "all_to_all_single" and (len(args) > 2 or kwargs.get("input_split_sizes") is not None):
                seen["splits"] = True
            seen["group"] = self.group(group)
            if word == "all_reduce" and recorder.detail and recorder.wants("exchange"):
                self._exchanging()
            entry = recorder.enter(f"collective.{word}", "", seen)
            if word == "all_reduce" and entry.parent >= 0 and recorder.detail and recorder.wants("summands"):
                self._summand(entry, args[0] if args else kwargs.get("tensor"))
            return entry

        return before

    def _exchanging(self) -> None:
        """The program calls for a sum over ranks between a backward pass and a step: gradients may be what it exchanges."""
        recorder = self.recorder
        if recorder.stack() or not recorder.waiting or self._exchanged == recorder.passes or self.variables.stale:
            return
        self._exchanged = recorder.passes
        self.states.gradients("before_exchange", None, False)

    def _summand(self, entry: Entry, tensor: Any) -> None:
        """Tell the norm of what this rank gives to a sum within a forward pass."""
        recorder = self.recorder
        if recorder.backward_depth or not isinstance(tensor, recorder.torch.Tensor) or not tensor.is_floating_point():
            return
        if tensor.dim() < 2 or tensor.numel() < _LEAST_SUMMAND:
            return
        head = (recorder.number(), recorder.iteration, recorder.step, entry.number, entry.name, "given")
        about = (dtype_of(tensor), list(tensor.shape), str(tensor.device))
        grad = tensor.requires_grad
        recorder.later(norms([tensor]), lambda found: [("tensor", (*head, *about, found[0], grad))])

    # -- wrappers

    def _wrapping(self, name: str) -> Any:
        def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
            module = kwargs.get("module", args[1] if name in ("wrap.ddp", "wrap.fsdp1") and len(args) > 1 else args[0])
            recorder = self.recorder
            if not isinstance(module, recorder.torch.nn.Module):
                return None
            sight = self.names.root(module, sys._getframe(1))
            entry = recorder.enter(name, sight, {"type": type(module).__name__})
            entry.about = args[0] if name == "wrap.ddp" else kwargs.get("mesh", kwargs.get("device_mesh"))
            if entry.about is None and name == "wrap.tp" and len(args) > 1:
                entry.about = args[1]
            return entry

        return before

    def _wrapped(self, entry: Entry | None, value: Any, error: BaseException | None) -> None:
        if entry is None:
            return
        mesh, entry.about = entry.about, None
        self.variables.stale = True
        dist = self.recorder.torch.distributed
        ranks = None
        if hasattr(mesh, "mesh"):
            ranks = sorted(int(rank) for rank in mesh.mesh.reshape(-1).tolist())
        elif mesh is None and entry.name == "wrap.fsdp2" and dist.is_initialized():
            ranks = list(range(dist.get_world_size()))
        self.recorder.leave(entry, {"ranks": ranks}, error)

    def _wrapped_ddp(self, entry: Entry | None, value: Any, error: BaseException | None) -> None:
        if entry is None:
            return
        wrapper, entry.about = entry.about, None
        if error is not None:
            self.recorder.leave(entry, None, error)
            return
        ranks = sorted(self.recorder.torch.distributed.get_process_group_ranks(wrapper.process_group))
        synced = bool(getattr(wrapper, "broadcast_buffers", False))
        self.recorder.leave(entry, {"ranks": ranks, "buffers": synced})
        self.variables.replicated(wrapper.module, ranks, synced)

    def _hooking(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        hook = kwargs.get("hook", args[2] if len(args) > 2 else None)
        return self.recorder.enter("comm_hook", self.names.of(args[0]) or "", {"hook": getattr(hook, "__name__", "")})

    def _no_sync(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        return self.recorder.enter("no_sync", self.names.of(args[0]) or "")
