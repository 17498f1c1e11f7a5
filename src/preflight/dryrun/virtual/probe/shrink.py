"""A smaller model: fewer layers and less width in the arguments with which the script builds it.

Every class of modules that is defined from now on has its constructor watched. The arguments of the outermost one are made
smaller by their names, wherever they are written: plain numbers, dictionaries, dataclasses, configuration objects. What the
data decides (vocabulary, classes, pictures, positions) stays.
"""

from __future__ import annotations

import functools
import inspect
import re
from typing import Any

import torch

_LAYERS = re.compile(
    r"^(n_?layers?|num_?(hidden_|encoder_|decoder_|transformer_)?layers|(encoder|decoder)_(layers|depth)|depths?|layers|"
    r"n_?blocks|num_(transformer_)?blocks|num_res_blocks|layers_per_block|num_encoder_blocks)$",
    re.I,
)
_WIDTH = re.compile(
    r"^(d_?model|n_embd|n_embed|(hidden|embed|embedding|emb|model|inner|mlp|ffn|feed_?forward|intermediate|decoder_embed|"
    r"(encoder|decoder)_ffn|ff|moe_intermediate|cross_attention)_?(size|dim|width|channels)|dim|width|d_?ff|d_?inner|n_inner|"
    r"dim_?feed_?forward|block_out_channels|model_channels|encoder_hidden|hidden)$",
    re.I,
)
_HEADS = re.compile(
    r"^(n_?heads?|nheads?|heads|num_?(attention_)?heads|(encoder|decoder)_attention_heads|decoder_num_heads)$", re.I
)
_GROUPS = re.compile(r"^(n_?kv_?heads?|num_(key_value|kv)_heads|n_?query_groups)$", re.I)
_HEAD = re.compile(r"^(head_?(dim|size)|d_?head|dim_?head|d_kv)$", re.I)
_EXPERTS = re.compile(r"^(num_(local_)?experts|n_routed_experts|n_experts?)$", re.I)
EXPERTS = 4
_DEEP = 3


class Shrink:
    """Makes models smaller as they are built.

    Args:
        layers: The most layers; None leaves them.
        width: The largest width; None leaves it.

    Attributes:
        told: What was made smaller, for the report.
    """

    def __init__(self, layers: int | None, width: int | None) -> None:
        self.layers, self.width = layers, width
        self.told: dict[str, None] = {}
        self._inside = 0
        self._done: set[int] = set()
        self._kept: list[Any] = []  # configurations that were made smaller, alive so that their identity stays theirs

    def install(self) -> None:
        """Watch the constructors of classes that are defined from now on."""
        if self.layers is None and self.width is None:
            return
        shrink = self

        def defined(cls: Any, /, **kwargs: Any) -> None:
            super(torch.nn.Module, cls).__init_subclass__(**kwargs)
            if "__init__" in cls.__dict__:
                cls.__init__ = shrink._watched(cls.__init__)

        torch.nn.Module.__init_subclass__ = classmethod(defined)
        torch.nn.Transformer.__init__ = self._watched(torch.nn.Transformer.__init__)

    def _watched(self, make: Any) -> Any:
        @functools.wraps(make)
        def made(module: Any, *args: Any, **kwargs: Any) -> None:
            if not self._inside:
                args, kwargs = self._smaller(make, module, args, kwargs)
            self._inside += 1
            try:
                make(module, *args, **kwargs)
            finally:
                self._inside -= 1

        return made

    def _smaller(self, make: Any, module: Any, args: Any, kwargs: Any) -> Any:
        try:
            given = inspect.signature(make).bind(module, *args, **kwargs)
        except (TypeError, ValueError):
            return args, kwargs  # the constructor itself says what is wrong
        given.apply_defaults()
        self._fields(given.arguments, 0)
        return given.args[1:], given.kwargs

    def _fields(self, fields: Any, depth: int) -> None:
        """Change the values of a mapping in place, and those of configurations in it."""
        self._numbers(fields)
        if depth < _DEEP:
            for value in list(fields.values()):
                inner = value if isinstance(value, dict) else _attributes(value)
                if inner is not None and id(value) not in self._done:
                    self._done.add(id(value))
                    self._kept.append(value)
                    self._fields(inner, depth + 1)

    def _numbers(self, fields: Any) -> None:
        before = {name: fields[name] for name in fields.keys() if isinstance(name, str)}  # noqa: SIM118
        self._fewer_layers(fields, before)
        factor = self._factor(before)
        if factor > 1:
            self._narrower(fields, before, factor)
        for name, value in before.items():
            if _EXPERTS.match(name) and _whole(value) and self.width is not None and value > EXPERTS:
                self._set(fields, name, EXPERTS)

    def _fewer_layers(self, fields: Any, before: dict[str, Any]) -> None:
        if self.layers is None:
            return
        old = None
        for name, value in before.items():
            if _LAYERS.match(name):
                if _whole(value) and value > self.layers:
                    old = value
                    self._set(fields, name, self.layers)
                elif _numbers(value) and sum(value) > self.layers:
                    self._set(fields, name, type(value)(1 for _ in value))
        for name, value in before.items():  # what is told for each layer
            if old is not None and isinstance(value, (list, tuple)) and len(value) == old:
                fields[name] = value[: self.layers]

    def _factor(self, before: dict[str, Any]) -> int:
        """Return by what power of two every width is divided."""
        widths = [v for n, v in before.items() if _WIDTH.match(n) and _whole(v)]
        widths += [max(v) for n, v in before.items() if _WIDTH.match(n) and _numbers(v)]
        # The inner width of a layer is larger than that of the model; the smallest that is a model's is what counts.
        main = [v for v in widths if v >= 64]
        factor = 1
        while self.width is not None and main and min(main) // factor > self.width:
            factor *= 2
        return factor

    def _narrower(self, fields: Any, before: dict[str, Any], factor: int) -> None:
        heads = [v for n, v in before.items() if (_HEADS.match(n) or _GROUPS.match(n)) and _whole(v)]
        fewer = 1  # heads are divided as far as all counts of heads allow, their size by the rest
        while fewer < factor and heads and all(v % (fewer * 2) == 0 for v in heads):
            fewer *= 2
        for name, value in before.items():
            if _WIDTH.match(name) and _whole(value) and value % factor == 0:
                self._set(fields, name, value // factor)
            elif _WIDTH.match(name) and _numbers(value) and all(v % factor == 0 for v in value):
                self._set(fields, name, type(value)(v // factor for v in value))
            elif (_HEADS.match(name) or _GROUPS.match(name)) and _whole(value):
                self._set(fields, name, value // fewer)
            elif _HEAD.match(name) and _whole(value) and value % (factor // fewer) == 0 and factor > fewer:
                self._set(fields, name, value // (factor // fewer))

    def _set(self, fields: Any, name: str, value: Any) -> None:
        self.told.setdefault(f"{name} {fields[name]} set to {value}")
        fields[name] = value


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _numbers(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) > 0 and all(_whole(v) for v in value)


class _Attributes:
    """The attributes of an object, as a mapping; what is set is set on the object."""

    def __init__(self, thing: Any) -> None:
        self._thing = thing

    def keys(self) -> Any:
        """Return the names."""
        return vars(self._thing).keys()

    def values(self) -> Any:
        """Return the values."""
        return vars(self._thing).values()

    def __getitem__(self, name: str) -> Any:
        return vars(self._thing)[name]

    def __setitem__(self, name: str, value: Any) -> None:
        object.__setattr__(self._thing, name, value)


def _attributes(value: Any) -> _Attributes | None:
    """Return the attributes of a configuration; None for what is none."""
    kind = type(value)
    if kind.__module__ in ("builtins", "torch") or isinstance(value, (torch.nn.Module, torch.Tensor, type)):
        return None
    if not hasattr(value, "__dict__") or callable(value):
        return None
    return _Attributes(value)
