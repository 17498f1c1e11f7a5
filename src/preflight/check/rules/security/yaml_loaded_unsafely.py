"""YAML is read with a loader that can run code.

## What it does
Looks for `yaml.load` with `Loader`, `UnsafeLoader` or no loader, and for `yaml.unsafe_load`.

## Why
These loaders build any Python object that the file names, and so run code from a configuration file.
Without a loader the call fails: since PyYAML 6.0 the argument is required.

## Fix
Call `yaml.safe_load`.

## When to ignore
When the file holds Python objects on purpose and is your own.

## References
- PyYAML, "yaml.load(input) Deprecation"
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Ext, settle
from preflight.vocabulary.finding import Edit, Finding

RULE = Rule(
    name="yaml-loaded-unsafely", code="SEC004", severity="warning", confidence="certain", layer="S", tags=("security",)
)
_UNSAFE = ("yaml.Loader", "yaml.UnsafeLoader", "yaml.CLoader", "yaml.loader.Loader", "yaml.loader.UnsafeLoader")

BAD = (
    """
import yaml
with open("config.yaml") as file:
    config = yaml.load(file)
""",
    """
import argparse
from yaml import load, Loader
parser = argparse.ArgumentParser()
parser.add_argument("--config", default="config.yaml")
def read(path):
    with open(path) as file:
        return load(file, Loader=Loader)
read(parser.parse_args().config)
""",
    """
import yaml as y
class Settings:
    loader = y.UnsafeLoader
    def read(self, text):
        return y.load(text, self.loader)
Settings().read("a: 1")
""",
    """
import yaml
config = yaml.unsafe_load(open("config.yaml"))
""",
)

GOOD = (
    """
import yaml
config = yaml.safe_load(open("config.yaml"))
other = yaml.load(open("config.yaml"), Loader=yaml.SafeLoader)
third = yaml.load(open("config.yaml"), Loader=yaml.FullLoader)
""",
    """
from ruamel.yaml import YAML
yaml = YAML(typ="safe")
config = yaml.load(open("config.yaml"))
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find unsafe loads."""
    for event in context.trace.calls("yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.unsafe_load_all"):
        given = event.argument(1, "Loader")
        loader = settle(given) if given is not None else None
        if event.name.startswith("yaml.load"):
            if given is not None and not (isinstance(loader, Ext) and loader.name in _UNSAFE):
                continue
            if given is None and getattr(event.result, "open_args", False):
                continue
        yield _finding(context, event, loader.name if isinstance(loader, Ext) else None)


def _finding(context: Context, event: Event, loader: str | None) -> Finding:
    missing = loader is None and event.name.startswith("yaml.load")
    what = "has no Loader: PyYAML 6 raises TypeError, and older versions" if missing else "uses a loader that"
    return context.finding(
        RULE,
        event,
        f"{event.name} {what} can run code from the file",
        evidence=[Evidence("loader", loader or ("none" if missing else event.name))],
        fix=Fix(
            title="call yaml.safe_load",
            edits=edits(*parts) if (parts := _edits(context, event, missing)) else (),
            instruction="call yaml.safe_load(file)",
            expected="the file is read as data",
        ),
    )


def _edits(context: Context, event: Event, missing: bool) -> list[Edit | None]:
    """``yaml.load(file)`` becomes ``yaml.safe_load(file)``."""
    node = event.node
    if (
        not missing
        or not isinstance(node, ast.Call)
        or not isinstance(node.func, ast.Attribute)
        or event.name != "yaml.load"
    ):
        return []
    return [context.replace((event.script, node.func), event.script.segment(node.func.value) + ".safe_load")]
