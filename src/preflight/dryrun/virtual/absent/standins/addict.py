"""Dictionaries whose keys are attributes too and that make what is missing, in the place of addict."""

from __future__ import annotations

from typing import Any

__version__ = "2.4.0"


class Dict(dict):  # type: ignore[type-arg]
    """A dictionary with attributes; a key that it lacks is another one, kept once something is set in it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        object.__setattr__(self, "_of", None)
        for name, value in dict(*args, **kwargs).items():
            self[name] = self._hook(value)

    @classmethod
    def _hook(cls, item: Any) -> Any:
        if isinstance(item, dict) and not isinstance(item, cls):
            return cls(item)
        return type(item)(map(cls._hook, item)) if type(item) in (list, tuple) else item

    def __missing__(self, name: Any) -> Any:
        made = type(self)()
        object.__setattr__(made, "_of", (self, name))
        return made

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return self[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        del self[name]

    def __setitem__(self, name: Any, value: Any) -> None:
        super().__setitem__(name, value)
        held = object.__getattribute__(self, "_of")
        if held is not None:
            object.__setattr__(self, "_of", None)
            held[0][held[1]] = self

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Take the items of another dictionary; dictionaries in it are merged."""
        for name, value in dict(*args, **kwargs).items():
            old = self.get(name)
            if isinstance(old, dict) and isinstance(value, dict):
                old.update(value)
            else:
                self[name] = self._hook(value)

    def to_dict(self) -> dict[Any, Any]:
        """Return plain dictionaries."""

        def plain(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: plain(inner) for key, inner in value.items()}
            return type(value)(map(plain, value)) if type(value) in (list, tuple) else value

        return plain(self)  # type: ignore[no-any-return]

    def copy(self) -> Any:
        """Return a copy."""
        return type(self)(self)

    def __deepcopy__(self, memo: Any) -> Any:
        import copy

        return type(self)({key: copy.deepcopy(value, memo) for key, value in self.items()})
