"""Device meshes: over how many ranks a model is cut, as the script says it."""

from __future__ import annotations

from preflight.source.values import Known, Obj, Seq, Value, plain, settle

_MESHES = (
    "torch.distributed.device_mesh.init_device_mesh",
    "torch.distributed.device_mesh.DeviceMesh",
    "torch.distributed.DeviceMesh",
    "torch.distributed.init_device_mesh",
)


def size_of(value: Value | None) -> int | None:
    """The number of ranks of a mesh with one dimension, or of one dimension taken from a mesh; None where it is not known."""
    base = settle(value) if value is not None else None
    if not isinstance(base, Obj):
        return None
    if base.name in _MESHES:
        sizes = _sizes(base)
        return sizes[0] if sizes is not None and len(sizes) == 1 else None
    if base.kind == "item" or base.name == ".get_group":
        mesh = settle(base.receiver) if base.receiver is not None else None
        sizes = _sizes(mesh) if isinstance(mesh, Obj) and mesh.name in _MESHES else None
        position = _position(mesh, plain(base.args[0]) if base.args else None) if isinstance(mesh, Obj) else None
        return sizes[position] if sizes is not None and position is not None and position < len(sizes) else None
    return None


def _sizes(mesh: Obj) -> list[int | None] | None:
    """The extent of each dimension; None for those that are known only at run time."""
    shape = settle(mesh.argument(1, "mesh_shape") or Known(None))
    if mesh.name.endswith(".DeviceMesh") or not isinstance(shape, Seq) or shape.open:
        return None
    found = [plain(item) for item in shape.items]
    return [n if isinstance(n, int) and not isinstance(n, bool) and n > 0 else None for n in found]


def _position(mesh: Obj, asked: object) -> int | None:
    """Which dimension a name or a number means."""
    names = plain(mesh.argument(-1, "mesh_dim_names"))
    if isinstance(names, (list, tuple)) and asked in names:
        return list(names).index(asked)
    return asked if isinstance(asked, int) and not isinstance(asked, bool) and asked >= 0 else None
