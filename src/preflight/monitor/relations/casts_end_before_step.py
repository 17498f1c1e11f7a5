"""Cast copies of weights end before the next step."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import optimizer_number
from preflight.monitor.window import Window


class CastsEndBeforeStep(Relation):
    """No autocast context, with its copies of the weights in a lower precision, lasts from one step to the next.

    Autocast keeps the copies that it makes of the weights until its outermost context ends. Where that context spans
    several steps, the forward passes go on with copies of weights from before the step, whatever the optimizer does.
    Judged at every step that happens inside an autocast context: the context must have ended at least once since the
    step before, unless the cache is switched off, or no weight of the optimizer is one that would be cast.
    """

    name = "casts-end-before-step"
    midway = True
    needs = frozenset({"step"})
    wakes = frozenset({"step"})
    repeats = 1
    looks = frozenset({"step"})
    whole = False
    priority = 11
    cause = "one autocast context is open around the whole training loop"
    advice = "open autocast around the forward pass and the loss of one step only, or give it cache_enabled=False"

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("step"):
            context = {"autocast": "inside" if "autocast" in (call.context or "") else "outside"}
            owned = [one for one in window.run.variables.values() if one.optimizer == optimizer_number(call)]
            cast = not owned or any(one.dtype == "float32" for one in owned)
            if not (call.args or {}).get("casts_kept") or not cast:
                yield Example((), True, context)
                continue
            yield Example(
                (),
                False,
                context,
                variables=(call.object, *sorted(window.run.roots(optimizer_number(call)))),
                expected="an autocast context that ends between two steps",
                seen="the same context as at the step before",
                call=call,
                detail="The step happens in the autocast context of the step before, whose copies of the weights live on",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        inside = {"args": {"closure": False, "casts_kept": False}, "context": "grad,autocast.cpu=bfloat16"}
        yield [mini.window("forward model", "backward", ("step optimizer0:SGD", inside)) for _ in range(2)]
        mini = Mini({"model.weight": {"dtype": "bfloat16"}})
        kept = {"args": {"closure": False, "casts_kept": True}, "context": "grad,autocast.cpu=bfloat16"}
        yield [mini.window("forward model", "backward", ("step optimizer0:SGD", kept))]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        mini = Mini({"model.weight": {}})
        inside = {"args": {"closure": False, "casts_kept": True}, "context": "grad,autocast.cpu=bfloat16"}
        yield [mini.window("forward model", "backward", ("step optimizer0:SGD", inside))]
