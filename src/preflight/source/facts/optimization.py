"""Optimizer, learning rate, schedule, clipping, number of steps."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from preflight.source.facts.settings import argument_of, deepspeed_config, trainer_setting, training_arguments
from preflight.source.facts.telling import at, fact_of, place_of, unknown
from preflight.source.launcher import Launch
from preflight.source.trace import Event
from preflight.source.training import TrainingLoop
from preflight.source.values import Dict, Known, Obj, Seq, Value, options_of, plain, settle
from preflight.vocabulary.fact import Fact

if TYPE_CHECKING:
    from preflight.source.reading import Reading


def facts(reading: Reading, launch: Launch, gpus: int | None, known: dict[str, Fact]) -> dict[str, Fact]:
    """Facts of the optimization."""
    return {
        **_optimizer(reading),
        "scheduler": _scheduler(reading),
        "gradient_clipping": _clipping(reading),
        **_steps(reading),
    }


def main_optimizer(reading: Reading) -> Obj | None:
    """The optimizer that the first training loop steps; else the first that is made."""
    for loop in reading.loops:
        for step in loop.steps:
            for value in (step.receiver, *step.args):
                for option in options_of(value):
                    if isinstance(option, Obj) and reading.roles.of(option) == "optimizer" and option.kind != "item":
                        return option
    made = sorted(reading.made("optimizer"), key=lambda o: o.context is not None and o.context.shadow)
    return made[0] if made else None


def _name(obj: Obj) -> str:
    if obj.cls is not None:
        return obj.cls.qualname
    return obj.name.rpartition(".")[2]


def _optimizer(reading: Reading) -> dict[str, Fact]:
    made = main_optimizer(reading)
    if made is not None and made.name.startswith("timm.optim.create"):
        name = made.kwargs.get("opt") or _held(made, "opt")
        return {
            "optimizer.name": fact_of(name, "timm", str),
            "optimizer.lr": fact_of(made.kwargs.get("lr") or _held(made, "lr"), None, (int, float)),
        }
    if made is not None:
        name_known = _name(made).strip("?()[]") != ""
        found = {
            "optimizer.name": Fact(_name(made), place_of(made), "constructor")
            if name_known
            else unknown("which optimizer is made is not known")
        }
        lr = made.argument(1, "lr")
        found["optimizer.lr"] = fact_of(lr, None, (int, float)) if lr is not None else _default_lr(reading, made)
        momentum = made.kwargs.get("momentum")
        if momentum is not None or _name(made) in ("SGD", "RMSprop"):
            found["optimizer.momentum"] = (
                fact_of(momentum, None, (int, float))
                if momentum is not None
                else Fact(0.0, None, "default of " + _name(made))
            )
        return found
    if training_arguments(reading) is not None:
        return {
            "optimizer.name": fact_of(trainer_setting(reading, "optim"), None, str),
            "optimizer.lr": fact_of(trainer_setting(reading, "learning_rate"), None, (int, float)),
        }
    config = deepspeed_config(reading)
    section = config.get("optimizer") if config else None
    if isinstance(section, dict):
        given = section.get("params")
        parameters: dict[str, object] = given if isinstance(given, dict) else {}
        return {
            "optimizer.name": Fact(section.get("type"), None, "DeepSpeed configuration"),
            "optimizer.lr": Fact(parameters.get("lr"), None, "DeepSpeed configuration"),
        }
    return {
        "optimizer.name": unknown("no optimizer was recognised"),
        "optimizer.lr": unknown("no optimizer was recognised"),
    }


def _held(made: Obj, name: str) -> Value | None:
    for value in (*made.args, *made.kwargs.values()):
        settled = settle(value)
        if isinstance(settled, Obj):
            if name in settled.attrs:
                return settled.attrs[name]
            found = (
                _held(settled, name)
                if settled.kind == "call" and settled is not made and settled.name.startswith("timm.")
                else None
            )
            if found is not None:
                return found
    return None


# Learning rates that torch uses when none is given (torch.optim, version 2.13).
_DEFAULT_LR = {
    "Adam": 1e-3,
    "AdamW": 1e-3,
    "SGD": 1e-3,
    "RMSprop": 1e-2,
    "Adagrad": 1e-2,
    "Adadelta": 1.0,
    "NAdam": 2e-3,
    "RAdam": 1e-3,
    "Adamax": 2e-3,
    "LBFGS": 1.0,
    "ASGD": 1e-2,
    "Rprop": 1e-2,
    "SparseAdam": 1e-3,
    "Adafactor": 1e-2,
}


def _default_lr(reading: Reading, made: Obj) -> Fact:
    given = _of_groups(made)
    name = _name(made)
    if made.open_args or not made.name.startswith("torch.optim.") or made.cls is not None:
        return unknown("the learning rate is not given by name")
    if given is not None:
        return fact_of(given, "first group of parameters", (int, float))
    return (
        Fact(_DEFAULT_LR[name], place_of(made), f"default of {name}")
        if name in _DEFAULT_LR
        else unknown("no default is known")
    )


def _of_groups(made: Obj) -> Value | None:
    """The learning rate that the first group of parameters has of its own."""
    groups = settle(made.argument(0, "params") or Known(None))
    first = settle(groups.items[0]) if isinstance(groups, Seq) and groups.items else groups
    if isinstance(first, Dict):
        return first.entries.get("lr")
    return None


def _word(value: Value | None) -> str | None:
    """A word, also where a call makes it one of a list of words: ``SchedulerType("cosine")``."""
    settled = settle(value) if value is not None else None
    if isinstance(settled, Obj) and settled.kind == "call" and len(settled.args) == 1:
        settled = settle(settled.args[0])
    return settled.value if isinstance(settled, Known) and isinstance(settled.value, str) else None


def _scheduler(reading: Reading) -> Fact:
    for made in sorted(reading.made("scheduler"), key=lambda o: o.context is not None and o.context.shadow):
        if not made.name.endswith("get_scheduler"):
            return Fact(_name(made).removeprefix("get_"), place_of(made), "constructor")
        kind = made.argument(0, "name")
        word = _word(kind)
        return Fact(word, place_of(made), "constructor") if word is not None else fact_of(kind, "get_scheduler", str)
    if training_arguments(reading) is not None:
        return fact_of(trainer_setting(reading, "lr_scheduler_type"), None, str)
    config = deepspeed_config(reading)
    if config and isinstance(config.get("scheduler"), dict):
        return Fact(config["scheduler"].get("type"), None, "DeepSpeed configuration")
    if any(s.name == "['lr']" for s in reading.trace.stores):
        store = next(s for s in reading.trace.stores if s.name == "['lr']")
        return Fact("set by the script", store.script.location(store.node), "param_groups")
    return unknown("the learning rate is constant, as far as was seen")


def _clipping(reading: Reading) -> Fact:
    for loop in reading.loops:
        for clip in loop.clips:
            given = clip.argument(1, "max_norm") or clip.argument(1, "clip_value")
            return fact_of(given, "call", (int, float)) if given is not None else at(clip, True, "call")
    given = trainer_setting(reading, "max_grad_norm") or argument_of(reading, "lightning_trainer", "gradient_clip_val")
    if given is not None:
        return fact_of(given, None, (int, float))
    config = deepspeed_config(reading)
    if config and "gradient_clipping" in config:
        return Fact(config["gradient_clipping"], None, "DeepSpeed configuration")
    return unknown("gradients are not clipped, as far as was seen")


def _steps(reading: Reading) -> dict[str, Fact]:
    given = trainer_setting(reading, "max_steps") or argument_of(reading, "lightning_trainer", "max_steps")
    if isinstance(plain(given), int) and plain(given) > 0:
        return {"steps": fact_of(given)}
    epochs = trainer_setting(reading, "num_train_epochs") or argument_of(reading, "lightning_trainer", "max_epochs")
    if epochs is not None:
        return {
            "epochs": fact_of(epochs, None, (int, float)),
            "steps": unknown("the length of the data is not known before it is read"),
        }
    for loop in reading.loops:
        return _of_loop(reading, loop)
    return {"steps": unknown("no training loop was recognised")}


def _of_loop(reading: Reading, loop: TrainingLoop) -> dict[str, Fact]:
    frames = [loop.frame, *loop.outer]
    counts = [_count(f.value) for f in frames]
    if counts and all(c is not None for c in counts):
        total = 1
        for c in counts:
            total *= c  # type: ignore[operator]
        return {"steps": Fact(total, None, "iterations of the training loop")}
    found: dict[str, Fact] = {"steps": unknown("the length of the data is not known before it is read")}
    for frame in loop.outer:
        count = _count(frame.value)
        if count is not None:
            found["epochs"] = Fact(count, None, "iterations of the outer loop")
            break
    bound = _while_bound(reading, loop)
    if bound is not None:
        found["steps"] = bound
    return found


def _count(value: Value | None) -> int | None:
    obj = settle(value) if value is not None else None
    if isinstance(obj, Obj) and isinstance(obj.data, range):
        return len(obj.data)
    if isinstance(obj, Obj) and obj.name in ("tqdm.tqdm", "tqdm.auto.tqdm", "builtins.enumerate") and obj.args:
        return _count(obj.args[0])
    if isinstance(obj, Obj) and obj.name in ("tqdm.trange", "tqdm.auto.trange", "tqdm.notebook.trange") and obj.args:
        number = plain(obj.args[-1] if len(obj.args) < 3 else obj.args[1])
        return number if isinstance(number, int) else None
    return None


def _while_bound(reading: Reading, loop: TrainingLoop) -> Fact | None:
    """``while step < max_steps``, where each pass of the innermost loop counts one step."""
    for frame in [loop.frame, *loop.outer]:
        test = settle(frame.value) if frame.value is not None else None
        if isinstance(test, Obj) and test.kind == "op" and test.name in ("<", "<=", "!=") and len(test.args) == 2:
            bound = plain(test.args[1])
            if isinstance(bound, int) and not isinstance(bound, bool) and _counted_in(loop.frame.node, frame.node):
                return fact_of(test.args[1], "bound of the loop", int)
    return None


def _counted_in(inner: ast.AST | None, tested: ast.AST | None) -> bool:
    """Whether the counter that a loop tests goes up by one in the statements of the innermost loop, and only there."""
    if not isinstance(tested, ast.While) or not isinstance(tested.test, ast.Compare) or inner is None:
        return False
    counter = ast.dump(tested.test.left)
    stack: list[ast.AST] = list(getattr(inner, "body", []))
    found = 0
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While, ast.FunctionDef, ast.ClassDef)):
            continue  # another loop counts something else
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            target = ast.dump(node.target).replace("Store()", "Load()")
            found += target == counter and isinstance(node.value, ast.Constant) and node.value.value == 1
        stack.extend(ast.iter_child_nodes(node))
    return found == 1


__all__ = ["Event", "Known", "facts", "main_optimizer"]
