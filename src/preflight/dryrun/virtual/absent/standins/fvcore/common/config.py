"""Settings of fvcore: those of yacs, with files that name the file they begin from."""

from __future__ import annotations

import os
from typing import Any

from preflight.dryrun.virtual.absent.standins.yacs.config import CfgNode as _Plain

BASE_KEY = "_BASE_"


class CfgNode(_Plain):
    """Settings whose files can name another one to begin from."""

    @classmethod
    def load_yaml_with_base(cls, filename: str, allow_unsafe: bool = False) -> Any:
        """Return the settings of a file and of those that it begins from."""
        import yaml

        with open(filename, encoding="utf-8") as file:
            found = yaml.safe_load(file)
        if BASE_KEY not in found:
            return found
        base = os.path.join(os.path.dirname(filename), os.path.expanduser(found.pop(BASE_KEY)))
        return _merged(found, cls.load_yaml_with_base(base))

    def merge_from_file(self, cfg_filename: str, allow_unsafe: bool = False) -> None:
        """Take the settings of a YAML file."""
        self.merge_from_other_cfg(type(self)(self.load_yaml_with_base(cfg_filename)))


def _merged(new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    for name, value in new.items():
        both = isinstance(value, dict) and isinstance(old.get(name), dict)
        old[name] = _merged(value, old[name]) if both else value
    return old
