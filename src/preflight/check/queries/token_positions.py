"""Token positions: which tokens a tensor holds, by how many places it is moved along them, and what tokenizers made.

A tensor of tokens is followed back through views and slices: ``ids[:, 1:]`` is ``ids`` moved by one. Two tensors cut out
of one array at random places, ``data[i : i + n]`` and ``data[i + 1 : i + 1 + n]``, are compared in the same way.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from preflight.check.queries.tensors import VIEWS, module_of, operand, operation
from preflight.source.trace import parents_of
from preflight.source.values import Choice, Func, Known, Obj, Phi, Seq, Unknown, Value, plain, settle

if TYPE_CHECKING:
    from preflight.check.context import Context

_SAME = VIEWS | {"long", "int", "detach", "pin_memory", "astype", "from_numpy", "tensor", "as_tensor", "LongTensor"}
_SAME_CALLS = ("numpy.array", "numpy.asarray", "numpy.stack", "torch.LongTensor")


class Tokens(NamedTuple):
    """Where tokens come from.

    Attributes:
        key: Equal for two tensors that are cut out of the same tokens.
        moved: By how many places the first one is later than the first one of the whole.
        path: Identities of the values on the way.
    """

    key: tuple[object, ...]
    moved: int
    path: tuple[int, ...]


def tokens_of(value: Value | None) -> Tokens | None:
    """Follow a tensor of tokens back; None where something else than views and slices is on the way."""
    moved = 0
    path: list[int] = []
    for _ in range(40):
        value = settle(value) if value is not None else None
        if value is None or isinstance(value, (Choice, Phi, Known)):
            return None
        path.append(id(value))
        if isinstance(value, Unknown):
            return _cut(value, value.parents, moved, path)
        if isinstance(value, Seq) and len(value.items) == 1:
            value = value.items[0]  # what a comprehension makes of each element
            continue
        if not isinstance(value, Obj):
            return None
        name = operation(value)
        if name == "stack" or value.name in _SAME_CALLS or name in _SAME:
            of_list = value.name in _SAME_CALLS or name in ("tensor", "as_tensor", "LongTensor")
            value = operand(value) or (value.args[0] if value.args else None)
            given = settle(value) if of_list and value is not None else None
            if isinstance(given, Seq) and given.open:  # a list of tokens: where a piece was cut out of it is not kept
                return Tokens(("value", id(given)), moved, (*path, id(given)))
            continue
        if value.kind == "attr" and value.receiver is not None:
            return _named(value.receiver, value.name, moved, path)
        if name == "[]" and value.receiver is not None:
            key = settle(value.args[0]) if value.args else None
            if isinstance(key, Known) and isinstance(key.value, (str, int)):
                return _named(value.receiver, key.value, moved, path)
            step = start_of(key)
            if step is None:
                return _cut(value, (value.receiver, *value.args), moved, path)
            moved += step
            value = value.receiver
            continue
        return Tokens(("value", id(value)), moved, tuple(path))
    return None


def _named(receiver: Value, name: object, moved: int, path: list[int]) -> Tokens | None:
    """An entry of a batch: ``batch["input_ids"]`` and ``batch.input_ids`` are one thing."""
    holder: Value | None = settle(receiver)
    for _ in range(8):
        if isinstance(holder, Obj) and operation(holder) in ("to", "cuda", "cpu"):
            holder = operand(holder)
            holder = settle(holder) if holder is not None else None
    return Tokens(("entry", id(holder), name), moved, tuple(path)) if holder is not None else None


def start_of(key: Value | None) -> int | None:
    """By how many places an index moves the tokens; None where it picks single ones or where it is not known."""
    parts = key.items if isinstance(key, Seq) and key.kind == "tuple" else [key] if key is not None else []
    moved = 0
    for part in map(settle, parts):
        if isinstance(part, Known) and (part.value is None or part.value is Ellipsis):
            continue
        if not (isinstance(part, Obj) and part.name == "slice" and len(part.args) == 3):
            return None
        start, step = plain(part.args[0], "?"), plain(part.args[2], "?")
        if step not in (None, 1) or not (start is None or (isinstance(start, int) and start >= 0)):
            return None
        moved += start or 0
    return moved if parts else None


def _cut(value: Value, parts: tuple[Value, ...], moved: int, path: list[int]) -> Tokens | None:
    """A piece that is cut out of an array at a place that is not a constant."""
    cut = settle(parts[1]) if len(parts) == 2 else None
    if not (isinstance(cut, Obj) and cut.name == "slice" and cut.args):
        return Tokens(("value", id(value)), moved, tuple(path))
    start = settle(cut.args[0])
    if isinstance(start, Obj) and start.kind == "op" and start.name == "+" and len(start.args) == 2:
        constant = plain(start.args[1])
        if not isinstance(constant, int):
            return None
        moved, start = moved + constant, settle(start.args[0])
    if isinstance(start, Known):
        return None
    at = start.receiver if isinstance(start, Obj) and start.kind == "item" and start.receiver is not None else start
    return Tokens(("cut", id(settle(parts[0])), id(settle(at))), moved, tuple(path))


# Models of transformers that compare the logits of each position with the label of the next one.
_SHIFTS = r"^transformers\.(AutoModelForCausalLM|(?!XLNet|XLM)\w+(ForCausalLM|LMHeadModel))(\.from_\w+)?$"


def language_model(value: Value | None) -> Obj | None:
    """The causal language model of transformers that a value is, adapters around it removed."""
    base = settle(value) if value is not None else None
    for _ in range(4):
        if isinstance(base, Obj) and base.name == "peft.get_peft_model" and base.args:
            base = settle(base.args[0])
    return base if isinstance(base, Obj) and base.cls is None and re.match(_SHIFTS, base.name) else None


class Inside(NamedTuple):
    """What lies between tokens and what a network made of them.

    Attributes:
        causal: Whether a position is kept from seeing later ones.
        tokens: The token tensors that went in.
        moving: Whether something on the way may move positions.
    """

    causal: bool
    tokens: list[Value]
    moving: bool


_SIZES = frozenset((".size", ".dim", ".numel", "builtins.len", "shape", "device", "dtype"))


def inside(value: Value | None) -> Inside:
    """Walk from an output back to the tokens that were looked up."""
    causal, moving = False, False
    tokens: list[Value] = []
    stack: list[Value] = [value] if value is not None else []
    seen: set[int] = set()
    while stack and len(seen) < 4000:
        part = stack.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, Obj):
            if part.name in _SIZES:
                continue  # a number, which says nothing of the order of what it was counted on
            module = module_of(part)
            if module is not None and (module.name == "torch.nn.Embedding" or language_model(module) is not None):
                causal = causal or language_model(module) is not None
                given = part.args[0] if part.args else part.kwargs.get("input_ids") or part.kwargs.get("input")
                tokens += [given] if given is not None else []
                continue
            causal = causal or _hides_future(part)
            moving = moving or _moves(part)
        stack.extend(parents_of(part))
    return Inside(causal, tokens, moving)


def _hides_future(value: Obj) -> bool:
    name = operation(value) or value.name
    if name in ("tril", "triu") or name.endswith("generate_square_subsequent_mask"):
        return True
    return name == "scaled_dot_product_attention" and plain(value.argument(5, "is_causal")) is True


_MOVING = frozenset({"roll", "pad", "narrow", "gather", "index_select", "flip", "masked_select", "take_along_dim"})


def _moves(value: Obj) -> bool:
    name = operation(value)
    if name in _MOVING or (name or "").startswith(("nn.ZeroPad", "nn.ConstantPad")):
        return True
    if name in ("cat", "concat"):
        dim = value.argument(1, "dim")
        return dim is None or plain(dim) not in (-1, 2, 3)
    if name == "[]":
        key = settle(value.args[0]) if value.args else None
        first = settle(key.items[0]) if isinstance(key, Seq) and key.items else None
        if isinstance(first, Known) and first.value is Ellipsis and isinstance(key, Seq) and len(key.items) == 2:
            return False  # the last dimension
        parts = key.items if isinstance(key, Seq) else [key] if key is not None else []
        return any(
            isinstance(p, Obj) and p.name == "slice" and p.args and plain(p.args[0], "?") not in (None, 0)
            for p in map(settle, parts)
        )
    return False


def written(context: Context, found: Tokens) -> bool:
    """Whether other values than constants are written into the tokens on the way."""
    return any(
        id(settle(s.target)) in found.path and s.name.startswith("[") and not isinstance(settle(s.value), Known)
        for s in context.trace.stores
    )


def tokenized(value: Value | None) -> Obj | None:
    """The call of a tokenizer of transformers that an entry such as ``batch["input_ids"]`` belongs to."""
    for _ in range(12):
        base = settle(value) if value is not None else None
        if not isinstance(base, Obj):
            return None
        maker = settle(base.receiver) if base.receiver is not None else None
        if base.kind == "call" and isinstance(maker, Obj) and re.match(r"^transformers\.\w*Tokenizer\w*\b", maker.name):
            return base if base.name in ("()", ".batch_encode_plus", ".__call__") else None
        if base.kind in ("item", "attr") or operation(base) in _SAME:
            value = base.receiver if base.kind != "call" or base.receiver is not None else operand(base)
            continue
        return None
    return None


def pads(call: Obj) -> bool:
    """Whether a call of a tokenizer fills shorter texts up."""
    padding = plain(call.kwargs.get("padding"), False)
    texts = settle(call.args[0]) if call.args else None
    if isinstance(texts, Known) and isinstance(texts.value, str):
        return bool(padding == "max_length")  # one text alone is as long as itself
    if isinstance(texts, Seq) and len(texts.items) == 1 and not texts.open:
        return bool(padding == "max_length")
    return bool(padding in (True, "longest", "max_length"))


def collated(context: Context, value: Value | None) -> Value | None:
    """What a loader's own collate function puts where a value is taken out of a batch."""
    base = settle(value) if value is not None else None
    if not (isinstance(base, Obj) and base.kind == "item" and base.args and base.receiver is not None):
        return None
    batch = settle(base.receiver)
    loader = settle(batch.receiver) if isinstance(batch, Obj) and batch.kind == "item" and batch.receiver else None
    if not isinstance(loader, Obj) or context.roles.of(loader) != "loader":
        return None
    function = loader.argument(6, "collate_fn")
    func = settle(function) if function is not None else None
    func = getattr(func, "func", func)
    if not isinstance(func, Func):
        return None
    key = plain(base.args[0])
    for event in context.trace.events:
        if event.inlined and getattr(event.func, "func", event.func) is func and event.result is not None:
            made = settle(event.result)
            if isinstance(made, Seq) and isinstance(key, int) and 0 <= key < len(made.items):
                return made.items[key]
            entries = getattr(made, "entries", None)
            if isinstance(entries, dict) and isinstance(key, str):
                found = entries.get(key)
                return found if isinstance(found, Value) else None
    return None


__all__ = ["Inside", "Tokens", "collated", "inside", "language_model", "pads", "tokenized", "tokens_of", "written"]
