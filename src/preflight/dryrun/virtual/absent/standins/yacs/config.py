"""Settings with defaults, files and the command line, in the place of yacs."""

from __future__ import annotations

import ast
import copy
from typing import Any

_PLAIN = (tuple, list, str, int, float, bool, type(None))


class CfgNode(dict):  # type: ignore[type-arg]
    """A dictionary with attributes that can be frozen and merged.

    Args:
        init_dict: What it holds.
        key_list: Its place, for messages.
        new_allowed: Whether merging may add keys.
    """

    def __init__(self, init_dict: Any = None, key_list: Any = None, new_allowed: bool = False) -> None:
        made = {}
        for key, value in (init_dict or {}).items():
            plain = isinstance(value, dict) and not isinstance(value, CfgNode)
            made[key] = type(self)(value, new_allowed=new_allowed) if plain else value
        super().__init__(made)
        self.__dict__.update(__frozen__=False, __new_allowed__=new_allowed)

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if self.is_frozen():
            raise AttributeError(f"Attempted to set {name} to {value}, but CfgNode is immutable")
        self[name] = value

    def is_frozen(self) -> bool:
        """Whether it can be changed no more."""
        return bool(self.__dict__["__frozen__"])

    def is_new_allowed(self) -> bool:
        """Whether merging may add keys."""
        return bool(self.__dict__["__new_allowed__"])

    def set_new_allowed(self, is_new_allowed: bool) -> None:
        """Allow or forbid new keys, here and below."""
        self.__dict__["__new_allowed__"] = is_new_allowed
        for value in self.values():
            if isinstance(value, CfgNode):
                value.set_new_allowed(is_new_allowed)

    def _immutable(self, frozen: bool) -> None:
        self.__dict__["__frozen__"] = frozen
        for value in self.values():
            if isinstance(value, CfgNode):
                value._immutable(frozen)

    def freeze(self) -> None:
        """Allow no more changes."""
        self._immutable(True)

    def defrost(self) -> None:
        """Allow changes again."""
        self._immutable(False)

    def clone(self) -> Any:
        """Return a copy of all of it."""
        return copy.deepcopy(self)

    def __deepcopy__(self, memo: Any) -> Any:
        made = type(self)({key: copy.deepcopy(value, memo) for key, value in self.items()})
        made.__dict__.update(self.__dict__)
        return made

    def merge_from_file(self, cfg_filename: str) -> None:
        """Take the settings of a YAML file."""
        with open(cfg_filename, encoding="utf-8") as file:
            self.merge_from_other_cfg(self.load_cfg(file))

    def merge_from_other_cfg(self, cfg_other: Any) -> None:
        """Take the settings of another one."""
        for name, value in cfg_other.items():
            if name not in self and not self.is_new_allowed():
                raise KeyError(f"Non-existent config key: {name}")
            old, value = self.get(name), _decoded(copy.deepcopy(value))
            if isinstance(old, CfgNode) and isinstance(value, dict):
                old.merge_from_other_cfg(value)
            else:
                node = isinstance(value, dict) and not isinstance(value, CfgNode)
                self[name] = type(self)(value) if node else _fitting(value, old, name)

    def merge_from_list(self, cfg_list: Any) -> None:
        """Take pairs of names and values of the command line."""
        for full, value in zip(cfg_list[0::2], cfg_list[1::2], strict=True):
            *parents, name = full.split(".")
            node: Any = self
            for parent in parents:
                if parent not in node:
                    raise KeyError(f"Non-existent key: {full}")
                node = node[parent]
            if name not in node and not node.is_new_allowed():
                raise KeyError(f"Non-existent key: {full}")
            node[name] = _fitting(_decoded(value), node.get(name), full)

    @classmethod
    def load_cfg(cls, cfg_file_obj_or_str: Any) -> Any:
        """Return the settings of a YAML file or text."""
        import yaml

        return cls(yaml.safe_load(cfg_file_obj_or_str))

    def dump(self, **kwargs: Any) -> str:
        """Return the settings as YAML."""
        import yaml

        def plain(node: Any) -> Any:
            return {key: plain(value) for key, value in node.items()} if isinstance(node, dict) else node

        return str(yaml.safe_dump(plain(self), **kwargs))


def _decoded(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value


def _fitting(value: Any, old: Any, name: str) -> Any:
    """Return a value in the type that the setting had."""
    if old is None or value is None or type(old) is type(value):
        return value
    if isinstance(old, (tuple, list)) and isinstance(value, (tuple, list)):
        return type(old)(value)
    if isinstance(old, float) and isinstance(value, int):
        return float(value)
    raise ValueError(f"Type mismatch ({type(old)} vs. {type(value)}) for config key: {name}")
