"""A block that is computed once more in the backward pass learns."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.steps import Step, steps_of
from preflight.monitor.window import Call, Window
from preflight.vocabulary.counted import counted

_STEPS = 2
"""Steps without a gradient for any of its parameters, while others have one."""


class CheckpointedBlocksLearn(Relation):
    """What a block is given that is checkpointed by re-entry takes a gradient, where its own parameters are trained.

    ``checkpoint(block, x, use_reentrant=True)`` leaves the graph at ``x`` where that needs no gradient, as behind a frozen
    embedding. The adapters within the blocks are in the optimizer and never get a gradient; the loss falls by what the head
    learns alone.
    Judged are blocks whose parameters an optimizer steps, by the gradients of its next steps. It is broken where the block
    was given no tensor that needs a gradient, and none of its parameters had one in two steps in a row, in which others had.
    A block whose parameters are reached in another way has gradients, and is no violation.
    """

    name = "checkpointed-blocks-learn"
    needs = frozenset({"reentered", "step", "state"})
    wakes = frozenset({"reentered", "gradients of a step"})
    whole = False
    priority = 8
    cause = "the inputs of a block that is checkpointed by re-entry need no gradient, as behind frozen embeddings"
    advice = "use_reentrant=False, or make the inputs require a gradient (enable_input_require_grads)"

    def __init__(self) -> None:
        self._cut: dict[str, tuple[frozenset[str], Call]] = {}  # by block
        self._missed: dict[str, int] = {}
        self._told: set[str] = set()

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("reentered"):
            told = call.args or {}
            if told.get("reached"):
                self._cut.pop(call.object, None)
                yield Example((), True, {})
            else:
                self._cut.setdefault(call.object, (frozenset(told.get("parameters", ())), call))
        for step in steps_of(window) if self._cut else ():
            yield from self._judge(step, window)

    def _judge(self, step: Step, window: Window) -> Iterator[Example]:
        """Hold the gradients of a step against the blocks that were given nothing that takes one."""
        if step.gradients is None or step.closure:
            return
        norms = {
            window.run.name(ident): norm for ident, norm in zip(step.gradients.ids, step.gradients.norm, strict=True)
        }
        some = any(norm is not None for norm in norms.values())
        lost = []
        for block, (names, _) in self._cut.items():
            held = names & norms.keys()
            if not held:
                continue
            without = some and all(norms[name] is None for name in held)
            self._missed[block] = self._missed.get(block, 0) + 1 if without else 0
            if self._missed[block] >= _STEPS and block not in self._told:
                lost.append(block)
        if not lost:
            return
        self._told.update(lost)
        parameters = sorted(name for block in lost for name in self._cut[block][0])
        yield Example(
            (),
            False,
            {},
            variables=(*lost, *parameters),
            expected="gradients for the blocks, as for what lies above them",
            seen=f"none in {_STEPS} steps for {counted(len(parameters), 'parameter')} of {counted(len(lost), 'block')}",
            call=self._cut[lost[0]][1],
            detail=f"{lost[0]} is checkpointed by re-entry and given nothing that needs a gradient: it never learns",
        )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _run(reached=True, norm=0.3)
        yield [*_run(reached=True, norm=0.3), *_run(reached=False, norm=0.3)]

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _run(reached=False, norm=None)


def _run(reached: bool, norm: float | None) -> list[Window]:
    mini = Mini({"model.block.adapter": {}, "model.head.weight": {}})
    entered = ("reentered model.block", {"args": {"parameters": ["model.block.adapter"], "reached": reached}})
    rows = (
        "backward",
        ("gradients", {"model.block.adapter": norm, "model.head.weight": 0.5}),
        "step optimizer0:SGD",
    )
    return [mini.window(*([entered] if not number else []), *rows) for number in range(3)]
