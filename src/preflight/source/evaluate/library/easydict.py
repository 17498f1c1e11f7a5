"""Dictionaries whose entries are attributes: EasyDict, addict, ml_collections, yacs, munch, box."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.evaluate.library import Call, Model, library_call
from preflight.source.evaluate.library.omegaconf import as_config
from preflight.source.values import Dict, Value

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()


@MODEL.call(
    "easydict.EasyDict",
    "addict.Dict",
    "ml_collections.ConfigDict",
    "ml_collections.config_dict.ConfigDict",
    "ml_collections.FrozenConfigDict",
    "yacs.config.CfgNode",
    "munch.Munch",
    "munch.munchify",
    "box.Box",
    "fvcore.common.config.CfgNode",
    "detectron2.config.CfgNode",
)
def _config(m: Machine, c: Call) -> Value | None:
    made = library_call(m, Call("builtins.dict", None, c.args, c.kwargs, c.node, c.open, c.event))
    return as_config(made) if isinstance(made, Dict) else made
