"""Whether what ``torch.compile`` makes kernels of holds the loss, whose softmax is then never written."""

from __future__ import annotations

from preflight.source.evaluate.library.torch import wrapped
from preflight.source.facts.settings import trainer_setting
from preflight.source.reading import Reading
from preflight.source.values import Func, Known, Obj, Value, options_of, plain, settle


def loss_compiled(reading: Reading) -> bool:
    """Whether the loss is computed inside of what is compiled: by the model's own forward, or by a model of a library."""
    models = {id(model) for model in reading.models}
    whole = plain(trainer_setting(reading, "torch_compile")) is True or any(
        id(wrapped(option)) in models  # a part that is compiled leaves the loss to the rest
        for event in reading.trace.calls("torch.compile")
        if not event.context.shadow
        for option in options_of(event.argument(0, "model"))
    )
    losses = [loss for loop in reading.loops[:1] for loss in loop.losses()]
    if not losses:
        return whole and _trainer_takes_loss(reading)
    return whole and all(_of_forward(reading, loss) for loss in losses)


def _trainer_takes_loss(reading: Reading) -> bool:
    """Whether a trainer takes the loss that the model has computed, and computes none of its own from the logits."""
    trainers = [one for one in reading.made("trainer") if reading.trace.on(one, "train")]
    return (
        bool(trainers)
        and not plain(trainer_setting(reading, "label_smoothing_factor"))
        and all(
            one.name in ("transformers.Trainer", "transformers.Seq2SeqTrainer", "trl.SFTTrainer")
            and (one.cls is None or one.cls.lookup("compute_loss") is None)
            and "compute_loss_func" not in one.kwargs
            for one in trainers
        )
    )


def _of_forward(reading: Reading, loss: Value | None) -> bool:
    """Whether a loss comes out of a model's forward as it is, or times a number.

    That is an output's ``loss`` or its first part where labels were given, or a call that the model makes itself.
    """
    found = [option for option in options_of(loss) if not (isinstance(option, Known) and option.value is None)]
    return bool(found) and all(_is_of_forward(reading, option) for option in found)


def _is_of_forward(reading: Reading, loss: Value) -> bool:
    if isinstance(loss, Obj) and loss.kind == "op" and loss.name in ("*", "/"):
        return any(_of_forward(reading, part) for part in loss.args)  # divided by the steps that are accumulated
    if isinstance(loss, Obj) and loss.kind == "attr" and loss.name == "loss":
        return True
    if isinstance(loss, Obj) and loss.kind == "item" and loss.args and plain(loss.args[0]) in ("loss", 0):
        out = settle(loss.receiver) if loss.receiver is not None else None
        return isinstance(out, Obj) and out.name == "()" and "labels" in out.kwargs
    made = reading.event_of(loss)
    own = [one.cls for one in reading.models[:1] if one.cls is not None]
    return made is not None and any(
        frame.kind == "call" and isinstance(frame.value, Func) and frame.value.owner in own
        for frame in made.context.frames()
    )
