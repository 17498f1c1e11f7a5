"""PyTorch: wrappers that hand on what they wrap, and shapes of plain parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.evaluate import gpu_questions, layer_options
from preflight.source.evaluate.library import Call, Model
from preflight.source.evaluate.library.methods import is_module
from preflight.source.values import Choice, Dict, Known, Obj, Seq, Value, settle

if TYPE_CHECKING:
    import ast

    from preflight.source.evaluate.machine import Machine

MODEL = Model()
layer_options.register(MODEL)
gpu_questions.register(MODEL)
WRAPPERS = (
    "torch.compile",
    "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.parallel.DataParallel",
    "torch.distributed.fsdp.FullyShardedDataParallel",
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
    "torch.jit.script",
    "torch.jit.trace",
    "torch.distributed.fsdp.fully_shard",
    "apex.parallel.DistributedDataParallel",
    "fairscale.nn.FullyShardedDataParallel",
)


_TUPLES = {"_single": 1, "_pair": 2, "_triple": 3, "_quadruple": 4}


@MODEL.call(*("torch.nn.modules.utils." + name for name in _TUPLES))
def _ntuple(m: Machine, c: Call) -> Value | None:
    """One number for all sides, or one for each."""
    given = settle(c.args[0]) if c.args else None
    if not isinstance(given, Known) or not isinstance(given.value, (int, float)):
        return given if isinstance(given, Seq) else None
    return Seq([given] * _TUPLES[c.name.rpartition(".")[2]], "tuple", m.site(c.node))


@MODEL.call(
    "torch.nn.utils.weight_norm",
    "torch.nn.utils.spectral_norm",
    "torch.nn.utils.remove_weight_norm",
    "torch.nn.utils.remove_spectral_norm",
    "torch.nn.utils.parametrizations.weight_norm",
    "torch.nn.utils.parametrizations.spectral_norm",
    "torch.nn.utils.parametrizations.orthogonal",
)
def _changed_in_place(m: Machine, c: Call) -> Value | None:
    """Functions that change a module and return it."""
    return c.args[0] if c.args else None


@MODEL.call("torch.nn.SyncBatchNorm.convert_sync_batchnorm", "torch.jit.script", "torch.jit.trace", "@torch.jit.script")
def _same(m: Machine, c: Call) -> Value | None:
    return c.args[0] if c.args else None


_FILLS = (
    "uniform_", "normal_", "trunc_normal_", "constant_", "ones_", "zeros_", "eye_", "dirac_", "xavier_uniform_",
    "xavier_normal_", "kaiming_uniform_", "kaiming_normal_", "orthogonal_", "sparse_",
)  # fmt: skip


@MODEL.call(*("torch.nn.init." + name for name in _FILLS))
def _filled(m: Machine, c: Call) -> Value | None:
    """What fills a parameter gives the same parameter back."""
    return c.argument(0, "tensor")


@MODEL.call("torch.distributed.fsdp.fully_shard", "torch.distributed._composable.replicate")
def _in_place(m: Machine, c: Call) -> Value | None:
    return c.args[0] if c.args else None


def wrapped(value: Value | None) -> Value | None:
    """The module inside a wrapper: DDP, FSDP, compile; the value itself when it is not one."""
    current = settle(value) if value is not None else None
    for _ in range(8):
        if isinstance(current, Obj) and current.kind in {"call", "instance"} and current.name in WRAPPERS:
            inner = current.argument(0, "module") or current.argument(0, "model")
            if inner is None:
                break
            current = settle(inner)
        elif (
            isinstance(current, Obj)
            and current.kind == "attr"
            and current.name == "module"
            and current.receiver is not None
        ):
            current = settle(current.receiver)
        else:
            break
    return current


def wrapped_alike(choice: Choice) -> Value | None:
    """The network that all options of a choice are, in a wrapper or without one; None where they are different things."""
    found = {id(inner): inner for inner in map(wrapped, choice.options)}
    return next(iter(found.values())) if len(found) == 1 else None


for _name in WRAPPERS:

    @MODEL.call(_name + ".()")
    def _forward(m: Machine, c: Call) -> Value | None:
        """Calling a wrapper calls what is inside."""
        from preflight.source.evaluate.calls import call

        inner = wrapped(c.receiver)
        if inner is None or c.receiver is None or inner is settle(c.receiver):
            return None
        return call(m, inner, c.args, c.kwargs, c.node, c.open)

    @MODEL.attribute(_name + ".module", _name + "._orig_mod")
    def _module(m: Machine, base: Value, name: str, node: ast.AST, key: Value | None) -> Value | None:
        inner = wrapped(base)
        return inner if inner is not base else None


_SELF = ("to", "cuda", "cpu", "half", "float", "double", "bfloat16", "train", "eval", "requires_grad_")


@MODEL.call(*(f"{w}.{s}" for w in WRAPPERS for s in _SELF))
def _wrapper_self(m: Machine, c: Call) -> Value | None:
    return c.receiver


@MODEL.call("torch.nn.Sequential.()")
def _sequential(m: Machine, c: Call) -> Value | None:
    """Calling a Sequential calls its parts in order."""
    from preflight.source.evaluate.calls import call

    base = settle(c.receiver) if c.receiver is not None else None
    parts = _parts_in_order(m, base, c.node) if isinstance(base, Obj) and c.args else None
    if not parts or len(parts) > 64:
        return None
    value = c.args[0]
    for part in parts:
        inner = settle(part)
        if not isinstance(inner, Obj):
            return None
        value = call(m, inner, [value], {}, c.node)
    return value


def _parts_in_order(m: Machine, base: Obj, node: object) -> list[Value] | None:
    """What a Sequential calls; of a class derived from it, what its constructor and ``add_module`` were given."""
    if base.cls is None:
        return module_items(m, base, node)
    if "<items>" not in base.attrs or any(is_module(v) for n, v in base.attrs.items() if not n.startswith("<")):
        return None  # an attribute that is a module is a part too, in an order that is not kept
    return module_items(m, base, node)


_NAMED = (
    "torch.nn.ModuleList.add_module",
    "torch.nn.Sequential.add_module",
    "torch.nn.ModuleList.register_module",
    "torch.nn.Sequential.register_module",
)


_APPENDED = tuple(f"torch.nn.{kind}.{how}" for kind in ("ModuleList", "Sequential") for how in ("append", "extend"))


@MODEL.call(*_APPENDED, *_NAMED)
def _append(m: Machine, c: Call) -> Value | None:
    from preflight.source.evaluate.iteration import iterate

    base = settle(c.receiver) if c.receiver is not None else None
    if isinstance(base, Obj) and c.args:
        parts = module_items(m, base, c.node)
        if c.name.endswith("extend"):
            items, element = iterate(m, c.args[0], c.node)
            new = items if items is not None else [element] if element is not None else []
            base.open_args = base.open_args or items is None
        else:
            new = [c.args[1] if c.name in _NAMED and len(c.args) > 1 else c.args[0]]
        if parts is not None:
            held = base.attrs.get("<items>")
            seq = settle(held) if held is not None else Seq(list(parts), "list", m.site(c.node))
            assert isinstance(seq, Seq)
            m.touch(seq)
            seq.items.extend(new)
            base.attrs["<items>"] = seq
    return c.receiver


def module_items(m: Machine | None, base: Obj, node: object = None) -> list[Value] | None:
    """The parts of a ModuleList or Sequential in order; None when they are not all known."""
    held = base.attrs.get("<items>")
    if held is not None:
        seq = settle(held)
        return seq.items if isinstance(seq, Seq) and not seq.open else None
    if base.name == "torch.nn.ModuleList" and base.args:
        first = settle(base.args[0])
        if isinstance(first, Seq):
            return None if first.open else first.items
        return None
    if base.name == "torch.nn.ModuleList":
        modules = base.kwargs.get("modules")
        first = settle(modules) if modules is not None else Seq([])
        return first.items if isinstance(first, Seq) and not first.open else None
    named = settle(base.args[0]) if len(base.args) == 1 else None
    if isinstance(named, Dict):
        return None if named.open else [base.attrs.get(str(name), part) for name, part in named.entries.items()]
    return None if base.open_args else list(base.args)


@MODEL.attribute("torch.nn.ModuleList.__getitem__", "torch.nn.Sequential.__getitem__")
def _module_item(m: Machine, base: Value, name: str, node: ast.AST, key: Value | None) -> Value | None:
    from preflight.source.evaluate.attributes import item

    parts = module_items(m, base, node) if isinstance(base, Obj) else None
    if parts is None or key is None or not isinstance(base, Obj):
        return None
    found = item(m, Seq(list(parts)), key, node)
    if isinstance(found, Seq) and base.name == "torch.nn.Sequential":  # a slice is a sequence of its own
        return m.made("call", base.name, node, [*found.items]) if not found.open else None
    return found


@MODEL.attribute("torch.utils.data.DataLoader.dataset")
def _loaded(m: Machine, base: Value, name: str, node: ast.AST, key: Value | None) -> Value | None:
    """The data set that a loader was made with."""
    given = base.argument(0, "dataset") if isinstance(base, Obj) else None
    held = settle(given) if given is not None else None
    return held if isinstance(held, Obj) and held.cls is not None else None


@MODEL.attribute("torch.nn.ModuleDict.__getitem__")
def _module_entry(m: Machine, base: Value, name: str, node: ast.AST, key: Value | None) -> Value | None:
    from preflight.source.evaluate.attributes import item

    if isinstance(base, Obj) and base.args and key is not None:
        table = settle(base.args[0])
        if isinstance(table, Dict):
            return item(m, table, key, node)
    return None


def start_process(m: Machine, c: Call) -> Value | None:
    """``Process(target=f, args=(...))``: the new process calls the function; that it starts is taken for granted."""
    from preflight.source.evaluate.calls import call

    target, given, named = c.argument(1, "target"), c.argument(3, "args"), c.argument(4, "kwargs")
    if target is not None:
        args = settle(given) if given is not None else Seq([])
        table = settle(named) if named is not None else None
        items = list(args.items) if isinstance(args, Seq) else []
        kwargs = {str(k): v for k, v in table.entries.items()} if isinstance(table, Dict) else {}
        call(m, target, items, kwargs, c.node, not isinstance(args, Seq) or args.open)
    return None


@MODEL.call("torch.multiprocessing.spawn", "torch.multiprocessing.spawn.spawn")
def _spawn(m: Machine, c: Call) -> Value | None:
    """Each process calls the function with its index, then the given arguments."""
    from preflight.source.evaluate.calls import call

    function, given = c.argument(0, "fn"), c.argument(1, "args")
    if function is not None:
        index = m.made("item", "torch.multiprocessing.spawn", c.node)
        more = settle(given) if given is not None else Seq([])
        items = list(more.items) if isinstance(more, Seq) else []
        call(m, function, [index, *items], {}, c.node, not isinstance(more, Seq) or more.open)
    return Known(None)


@MODEL.call("torch.multiprocessing.Process", "torch.multiprocessing.process.Process")
def _process(m: Machine, c: Call) -> Value | None:
    return start_process(m, c)


@MODEL.call("torch.distributed.get_world_size")
def _world(m: Machine, c: Call) -> Value | None:
    size = m.environment.get("WORLD_SIZE")
    if size is not None and not c.args and "group" not in c.kwargs:
        return Known(int(size), m.site(c.node), "launcher")
    return None
