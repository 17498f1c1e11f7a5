"""Looks into an exception: the operator that refused, the module it was in, and the tensors of the statement."""

from __future__ import annotations

import ast
import linecache
from types import FrameType
from typing import Any

import torch

from preflight.dryrun.virtual import private
from preflight.dryrun.virtual.watch.observations import Observations
from preflight.dryrun.virtual.watch.operators import path_of, places_of

Fake = private.fake_class()
_MOST = 8


def note(error: BaseException, seen: Observations) -> None:
    """Note what can be told of an exception that ended the script; nothing where looking into it fails, too."""
    try:
        data = _explain(error, seen)
    except Exception:
        return
    if data is not None:
        seen.note("raised", each=True, line=data.pop("line"), **data)


def _explain(error: BaseException, seen: Observations) -> dict[str, Any] | None:
    frames: list[tuple[FrameType, int]] = []
    trace = error.__traceback__
    while trace is not None:
        frames.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    progress = seen.progress
    own = [item for item in frames if progress.owns(item[0].f_code.co_filename)]
    if not own:
        return None
    frame, number = own[-1]
    modules = [
        f for f, _ in frames if isinstance(f.f_locals.get("self"), torch.nn.Module) and f.f_code.co_name == "forward"
    ]
    told: dict[str, Any] = {"line": progress.shown(frame.f_code.co_filename, number), "error": type(error).__name__}
    told["tensors"] = [_tensor(name, value) for name, value in _named(frame, number).items()][:_MOST]
    if modules:
        last = modules[-1].f_locals["self"]
        told |= {"module_path": progress.name_of(last), "kind": type(last).__name__, "settings": _settings(last)}
        told["inputs"] = [
            _tensor(name, value)
            for name, value in modules[-1].f_locals.items()
            if isinstance(value, torch.Tensor)
            and name in modules[-1].f_code.co_varnames[: modules[-1].f_code.co_argcount]
        ][:_MOST]
        told["own"] = [
            _tensor(name, value)
            for name, value in (*last.named_parameters(recurse=False), *last.named_buffers(recurse=False))
        ][:_MOST]
    return told | _operator([f for f, _ in frames])


def _operator(frames: list[FrameType]) -> dict[str, Any]:
    """Return the operator that was running on the virtual GPU, and its tensors."""
    for frame in reversed(frames):
        if frame.f_code.co_name == "__torch_dispatch__" and frame.f_code.co_filename.endswith("gpu.py"):
            func, args = frame.f_locals["func"], frame.f_locals["args"]
            given = [leaf for leaf in private.leaves(args, {}) if isinstance(leaf, torch.Tensor)]
            name = func._schema.name.rpartition("::")[2]
            return {"operator": name, "given": [_tensor("", tensor) for tensor in given][:_MOST]}
    return {}


def _settings(module: Any) -> str:
    text = module.extra_repr() if not any(True for _ in module.children()) else ""
    return str(text)[:120]


def _named(frame: FrameType, number: int) -> dict[str, torch.Tensor]:
    """Return the tensors that the failing statement names, by how it writes them."""
    lines = linecache.getlines(frame.f_code.co_filename)
    found: dict[str, torch.Tensor] = {}
    for node in _parts(ast.parse("".join(lines)), number):
        if isinstance(node, (ast.Name, ast.Attribute)):
            value = _value(node, frame)
            if isinstance(value, torch.Tensor):
                found.setdefault(ast.unparse(node), value)
    return found


def _parts(tree: ast.Module, number: int) -> list[ast.AST]:
    """Return the expressions of the statement at a line; of one with a body, only those of its head."""
    best: ast.stmt | None = None
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.stmt)
            and node.lineno <= number <= (node.end_lineno or node.lineno)
            and (best is None or node.lineno >= best.lineno)
        ):
            best = node
    if best is None:
        return []
    heads = [child for child in ast.iter_child_nodes(best) if isinstance(child, (ast.expr, ast.withitem, ast.keyword))]
    return [part for head in heads for part in ast.walk(head)]


def _value(node: ast.AST, frame: FrameType) -> Any:
    """Look a name up, without running any code of the script."""
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id))
    if isinstance(node, ast.Attribute):
        holder = _value(node.value, frame)
        if isinstance(holder, torch.nn.Module):
            for room in (holder.__dict__, holder._parameters, holder._buffers, holder._modules):
                if node.attr in room:
                    return room[node.attr]
        return getattr(holder, "__dict__", {}).get(node.attr)
    return None


def _tensor(name: str, tensor: Any) -> dict[str, Any]:
    path, places = path_of(tensor), places_of(tensor)
    virtual = isinstance(tensor, Fake) and tensor.fake_device.type == private.BACKEND
    return {
        "name": name, "shape": list(tensor.shape), "dtype": str(tensor.dtype).removeprefix("torch."),
        "device": "cuda" if virtual else "cpu", "made_by": path[0] if path else "", "made_at": places[0] if places else "",
    }  # fmt: skip
