"""DeepSpeed: ``initialize`` makes an engine around the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight.source.evaluate.library import Call, Model
from preflight.source.values import Known, Seq, Value, settle

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

MODEL = Model()


@MODEL.call("deepspeed.initialize")
def _initialize(m: Machine, c: Call) -> Value | None:
    engine = m.made("call", "deepspeed.DeepSpeedEngine", c.node, c.args, c.kwargs)
    optimizer = c.argument(2, "optimizer")
    if optimizer is None or (isinstance(settle(optimizer), Known)):
        optimizer = m.made("call", "deepspeed.DeepSpeedOptimizer", c.node, [], c.kwargs, engine)
    loader = m.made("call", "deepspeed.DeepSpeedDataLoader", c.node, [], c.kwargs, engine)
    scheduler = c.argument(5, "lr_scheduler") or m.made("call", "deepspeed.LRScheduler", c.node, [], {}, engine)
    return Seq([engine, optimizer, loader, scheduler], "tuple", m.site(c.node))


@MODEL.call("deepspeed.DeepSpeedEngine.()", "deepspeed.DeepSpeedEngine.forward")
def _forward(m: Machine, c: Call) -> Value | None:
    from preflight.source.evaluate.calls import call

    engine = settle(c.receiver) if c.receiver is not None else None
    model = engine.argument(1, "model") if engine is not None and hasattr(engine, "argument") else None
    return call(m, model, c.args, c.kwargs, c.node, c.open) if model is not None else None


@MODEL.call("deepspeed.add_config_arguments")
def _arguments(m: Machine, c: Call) -> Value | None:
    from preflight.source.evaluate.library.argparse import Option, parser_of

    parser = parser_of(c.args[0] if c.args else None)
    if parser is not None:
        for flag in ("--deepspeed", "--deepspeed_config"):
            option = Option([flag], flag[2:], c.node)
            option.action = "store_true" if flag == "--deepspeed" else "store"
            parser.options.append(option)
    return c.args[0] if c.args else None
