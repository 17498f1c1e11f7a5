"""Backward passes: their loss, and whether gradients lay there when they began."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from . import accumulation
from . import draws as drawing
from .chained import Chained
from .digest import norms
from .digests import dtype_of
from .draws import Draws
from .entry import Entry
from .flows import Flows
from .lasting import Lasting
from .patching import Patches
from .pending import Pending, to_host
from .places import by_library, from_program, user_frame
from .plain import capturing, empty, loaded
from .ranges import BLANK, OUTSIDE, Ranges
from .ratios import ONE, Ratios
from .recorder import Recorder
from .rewritten import Rewritten
from .second_order import SecondOrder
from .sequences import NAMES, Sequences
from .state import States
from .tail import Tails
from .targets import Targets
from .unstepped import Unstepped
from .variables import Variables

if TYPE_CHECKING:
    from .anew import Anew
    from .terms import Terms


class Backwards:
    """Watches ``loss.backward()`` and ``torch.autograd.grad``."""

    def __init__(
        self,
        recorder: Recorder,
        variables: Variables,
        states: States,
        uncleared: set[int],
        unstepped: Unstepped,
        rewritten: Rewritten,
        sequences: Sequences,
        draws: Draws,
        terms: Terms,
        ratios: Ratios,
        anew: Anew | None,
    ) -> None:
        self.recorder = recorder
        self.variables = variables
        self.states = states
        self.uncleared = uncleared
        self.unstepped = unstepped
        self.rewritten = rewritten
        self.tails = Tails()
        self.flows = Flows(variables)
        self.sequences = sequences
        self.targets = Targets(recorder, sequences)
        self.ranges = Ranges(recorder, sequences, draws)
        self.ratios = ratios
        self.anew = anew
        self.second_order = SecondOrder(recorder)
        self.draws = draws
        self.terms = terms
        self.chained = Chained(recorder, variables.flags_changed, rewritten.written)
        self.lasting = Lasting(recorder)

    def install(self, patches: Patches) -> None:
        """Put the watching functions in place."""
        autograd = sys.modules["torch.autograd"]
        patches.around(autograd, "backward", self._before, self._after)
        patches.around(autograd, "grad", self._before_grad, self._after_grad)

    def _before(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        recorder = self.recorder
        recorder.backward_depth += 1
        roots = kwargs.get("tensors", args[0] if args else None)
        roots = list(roots) if isinstance(roots, (tuple, list)) else [roots]
        first = roots[0]
        if not recorder.trainers.goes_backward() or empty(first):
            return None
        recorder.begins("backward")
        seen: dict[str, Any] = {"dtype": dtype_of(first), "numel": first.numel(), "roots": len(roots)}
        if kwargs.get("retain_graph", args[2] if len(args) > 2 else None):
            seen["retain_graph"] = True
        recorder.within("chained", self._follows, first, args, kwargs, seen)
        self.unstepped.passes()
        left: dict[int, int] = {}
        if not self.variables.stale:
            left = self.variables.with_gradients()
            if left and self.uncleared:
                # Nothing was heard of a clearing since a step: the gradients tell whether there was one all the same.
                self.states.gradients("before_backward", None, False)
                self.uncleared.clear()
        if left:
            self.unstepped.having([*left])
        if left and recorder.detail and recorder.waiting == 1:
            self._accumulating()
        seen["gradients"] = sum(left.values())
        if left:
            seen["of"] = {str(index): count for index, count in left.items()}
        entry = recorder.enter("backward", "", seen)
        recorder.within("lasting", self.lasting.look, entry.place or "", first, seen)
        if recorder.called is not None:
            self._computed(seen)
        if accumulation.amidst() is not None and getattr(first, "grad_fn", None) is not None:
            seen["divided"] = accumulation.divided(first)
        tail = self.tails.of(entry.place or "", first) if recorder.detail else None
        if tail:
            seen["tail"] = tail
        if recorder.detail and recorder.wants("flow"):
            recorder.within("flow", self._flow, entry, first, seen)
        if recorder.detail and recorder.wants("scalar"):
            self._tokens(entry, first)
        recorder.within("targets", self._targets, entry, first)
        if recorder.detail:
            recorder.within("terms", self.terms.begins, entry, first)
            if recorder.wants(ONE):
                recorder.within("ratios", self.ratios.look, entry, first)
            if self.anew is not None:
                recorder.within("anew", self.anew.look, entry, first)
        if first.numel() == 1 and first.is_floating_point():
            number, step, iteration, began = recorder.number(), recorder.step, recorder.iteration, entry.began
            place = from_program(entry.place)
            recorder.later(
                read_later(first),
                lambda values: [("scalar", (number, began, iteration, step, "loss", place, values[0]))],
            )
        return entry

    def _follows(self, first: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: dict[str, Any]) -> None:
        """Tell of earlier passes that this one goes through once more."""
        kept = _kept(*args, **kwargs)
        if kept is not None:
            self.chained.look(first, kept, seen)

    def _flow(self, entry: Entry, first: Any, seen: dict[str, Any]) -> None:
        """Tell what the loss is computed by, as a whole."""
        if not self.variables.stale:
            flow = self.flows.of(entry.place or "", first)
            if flow is not None:
                seen.update(flow)

    def _targets(self, entry: Entry, first: Any) -> None:
        """Look at what a loss is computed against."""
        recorder = self.recorder
        self.targets.look(entry, first)
        if recorder.detail and (recorder.wants(OUTSIDE) or recorder.wants(BLANK)):
            self.ranges.look(entry, first)
        if recorder.detail and recorder.wants(drawing.NAME):
            self.draws.passed()

    def _computed(self, seen: dict[str, Any]) -> None:
        """Tell where the person's own code computed the loss, where a library asked it for one and goes backward itself."""
        frame = user_frame(sys._getframe(2))
        outer, place = self.recorder.called or (None, None)
        if place and frame is not None and frame.f_code is outer and by_library(sys._getframe(2)):
            seen["computed"] = place

    def _tokens(self, entry: Entry, loss: Any) -> None:
        """Tell how the targets of a loss over tokens lie to its inputs."""
        recorder = self.recorder
        found = None
        with recorder.work("tokens"):
            found = self.sequences.of(entry.place or "", loss)
        head = (recorder.number(), entry.began, recorder.iteration, recorder.step)
        place = from_program(entry.place)

        def rows(read: list[list[float]]) -> list[tuple[str, tuple[Any, ...]]]:
            return [
                ("scalar", (*head, f"tokens.{name}", f"{place}#{number}", value))
                for number, told in enumerate(read)
                for name, value in zip(NAMES, told, strict=True)
                if value >= 0
            ]

        recorder.later(found, rows)

    def _accumulating(self) -> None:
        """A second pass since the last step: what other optimizers' gradients are, and weights that none holds."""
        if not self.recorder.wants("accumulating"):
            return
        self.states.parameters("accumulating", -1, True)
        if len(self.variables.optimizers()) > 1:
            self.states.gradients("accumulating", None, False)

    def _after(self, entry: Entry | None, value: Any, error: BaseException | None) -> None:
        recorder = self.recorder
        recorder.trainers.ended()
        recorder.backward_depth = max(0, recorder.backward_depth - 1)
        if entry is None or not recorder.trainers.alone():
            return
        recorder.trained = True
        recorder.backwards += 1
        recorder.passes += 1
        recorder.waiting += 1
        self.rewritten.passed()
        recorder.leave(entry, None, error)
        if recorder.scaled and recorder.detail and not self.variables.stale:
            self.states.gradients("after_backward", None, False)

    def _before_grad(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Entry | None:
        self.recorder.backward_depth += 1
        asked = None
        with self.recorder.work("second order"):
            asked = self.second_order.asked(args, kwargs)
        return self.recorder.enter("autograd.grad", "", asked)

    def _after_grad(self, entry: Entry | None, value: Any, error: BaseException | None) -> None:
        self.recorder.backward_depth = max(0, self.recorder.backward_depth - 1)
        if entry is not None:
            if error is None:
                with self.recorder.work("second order"):
                    self.second_order.given(entry, value)
            self.recorder.leave(entry, None, error)


def _kept(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: Any = None,
    create_graph: Any = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> bool | None:
    """Whether a pass keeps its graph, by what ``torch.autograd.backward`` was given.

    None where it is for some leaves alone, or the program weighs its gradients.
    """
    weights = grad_tensors if grad_variables is None else grad_variables
    if inputs is not None or any(
        one is not None for one in (weights if isinstance(weights, (tuple, list)) else (weights,))
    ):
        return None
    return bool(create_graph if retain_graph is None else retain_graph)


def read_later(tensor: Any) -> Pending | None:
    """The value of a scalar tensor: read at once on the CPU, and without waiting for it on a GPU."""
    torch = loaded()
    if torch is not None and type(tensor) is torch.Tensor and tensor.is_cpu:  # as nearly all are, told by one operation
        return Pending.known([float(tensor.item())])
    if empty(tensor):
        return None
    held = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    held = held.detach()
    if held.device.type == "cpu":
        return Pending.known([float(held)])
    if held.device.type != "cuda":
        return norms([held])
    return None if capturing(torch) else Pending([to_host(torch, held.reshape(1).double())], lambda read: read[0])
