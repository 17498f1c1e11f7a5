"""Follows gradients: which backward passes are summed in each, and whether a step uses them or a clearing loses them.

A clearing is not read off a call of ``zero_grad`` but off the gradients: one that is gone, or whose memory was filled with
zeros, was cleared, whoever did it.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import torch

from preflight.dryrun.virtual import private
from preflight.dryrun.virtual.engine.wrappers import local
from preflight.dryrun.virtual.watch.observations import Observations

Fake = private.fake_class()


class Gradient:
    """The gradient of one parameter.

    Attributes:
        passes: Numbers of the backward passes that are summed in it now.
        lost: Numbers of those that a clearing threw away, since the optimizer's last step.
        tensor: Identity and version of the tensor when a pass last added to it.
        weight: Version of the parameter then.
        scaled: Whether it is multiplied by the scale of a loss.
        user: The optimizer that has used it, or None.
        by_hand: Whether another tensor was put in its place since.
    """

    __slots__ = ("by_hand", "lost", "parameter", "passes", "scaled", "tensor", "user", "weight")

    def __init__(self, parameter: Any) -> None:
        self.parameter = weakref.ref(parameter)
        self.passes: list[int] = []
        self.lost: list[int] = []
        self.tensor = (0, 0)
        self.weight = 0
        self.scaled = self.by_hand = False
        self.user: int | None = None


class Gradients:
    """All gradients.

    Args:
        seen: Tells where the script is.

    Attributes:
        passes: Backward passes so far.
        scaling: Whether a loss was scaled and not yet gone back from.
        running: Whether a backward pass runs.
        cleared: ``file:line`` where gradients were cleared last.
    """

    def __init__(self, seen: Observations) -> None:
        self.seen = seen
        self.passes = 0
        self.scaling = self.running = False
        self.cleared = ""
        self._fed: dict[int, Gradient] = {}
        self._zeros: set[int] = set()
        self._lines: dict[int, str] = {}
        self._reaches: dict[int, set[int]] = {}
        self._used: dict[int, int] = {}
        self._users: dict[int, dict[int, int]] = {}  # a pass: the optimizers that used it, and the passes done by then

    # ---- what happens

    def zeroed(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        """An operator has filled tensors with zeros."""
        if name == "fill_" and (isinstance(args[1], torch.Tensor) or args[1] != 0):
            return
        given = args[0] if isinstance(args[0], (list, tuple)) else (args[0],)
        for tensor in given:
            self._zeros.add(tensor.untyped_storage()._cdata)

    def begin(self, parameters: Iterable[Any]) -> None:
        """A backward pass begins."""
        self.running = False
        for parameter in parameters:
            self._settled(parameter)
        self.running = True

    def end(self, line: str, reached: Iterable[Any], owners: dict[int, list[int]]) -> list[int]:
        """A backward pass has ended; return the optimizers that it reached."""
        self.running = False
        self.passes += 1
        self._lines[self.passes] = line
        found: set[int] = set()
        for parameter in reached:
            known = self._settled(parameter, True)
            known.passes.append(self.passes)
            known.tensor, known.weight = (id(parameter.grad), parameter.grad._version), parameter._version
            known.scaled, known.user, known.by_hand = self.scaling, None, False
            plain = local(parameter.grad)
            if isinstance(plain, Fake) and private.has_storage(plain):
                self._zeros.discard(plain.untyped_storage()._cdata)
            found.update(owners.get(id(parameter), ()))
        self._reaches[self.passes] = found
        self.scaling = False
        return sorted(found)

    def unscaled(self, parameters: Iterable[Any]) -> None:
        """Gradients were divided by the scale."""
        for parameter in parameters:
            known = self._settled(parameter)
            if known is not None:
                known.scaled = False

    def stepped(self, number: int, parameters: Iterable[Any]) -> None:
        """An optimizer has used its gradients."""
        self._used[number] = self.passes
        for parameter in parameters:
            known = self._settled(parameter)
            if known is not None:
                known.user, known.lost = number, []
                for one in known.passes:
                    self._users.setdefault(one, {}).setdefault(number, self.passes)

    # ---- what rules ask for

    def told(self, number: int, parameters: list[Any]) -> dict[str, Any]:
        """Say what an optimizer finds in its parameters.

        ``fed``: parameters that passes since its last step reached; ``live``: those whose gradient holds such a pass;
        ``reused``: those whose gradient holds an older one; ``lost``: those that were reached and then cleared;
        ``by_hand``: those whose gradient no backward pass made; ``shared``: those whose gradient another optimizer has
        used; ``passes``: passes since its last step, ``alive``: those of them in the gradients, with their ``lines``.
        """
        last = self._used.get(number, 0)
        count = dict.fromkeys(
            ("fed", "live", "reused", "lost", "by_hand", "shared", "moved", "scaled", "frozen", "half"), 0
        )
        every: set[int] = set()
        alive: set[int] = set()
        other = -1
        for parameter in parameters:
            count["frozen"] += not parameter.requires_grad
            known, gradient = self._settled(parameter), parameter.grad
            if gradient is not None:
                count["by_hand"] += known is None or known.by_hand
                count["half"] += parameter.dtype == torch.float16
            if known is None:
                continue
            new = [one for one in known.passes if one > last]
            gone = [one for one in known.lost if one > last]
            every.update(new, gone)
            alive.update(new)
            count["fed"] += bool(new or gone)
            count["live"] += bool(new)
            count["lost"] += bool(gone and not new)
            count["reused"] += len(new) < len(known.passes)
            count["scaled"] += known.scaled and bool(known.passes)
            count["moved"] += bool(new) and known.weight != parameter._version
            if known.user not in (None, number) and known.passes:
                count["shared"] += 1
                other = known.user if known.user is not None else other
        foreign = self._foreign(number, alive)
        return count | {
            "passes": len(every), "alive": len(alive), "other": other, "cleared": self.cleared,
            "lines": sorted({self._lines[one] for one in every}), "foreign": [self._lines[one] for one, _ in foreign],
            "foreign_of": [user for _, user in foreign],
        }  # fmt: skip

    def clipped(self, parameters: list[Any], owners: dict[int, list[int]]) -> dict[str, Any]:
        """Say what a clipping finds: ``fresh`` gradients that no step has used yet, ``used`` ones, ``scaled`` ones."""
        fresh = used = scaled = 0
        found: set[int] = set()
        for parameter in parameters:
            mine = owners.get(id(parameter), [])
            found.update(mine)
            known = self._settled(parameter)
            if known is None or not known.passes:
                continue
            if known.user is None:
                fresh += 1
            elif known.user in mine:
                used += 1
            scaled += known.scaled
        return {"fresh": fresh, "used": used, "scaled": scaled, "optimizers": sorted(found)}

    def _foreign(self, number: int, alive: set[int]) -> list[tuple[int, int]]:
        """Passes that were meant for another optimizer: it used them, and then a loss came that does not reach it."""
        found = []
        for one in sorted(alive)[:-1]:
            for user, done in self._users.get(one, {}).items():
                later = [n for n in alive if n > done and self._lines[n] != self._lines[one]]
                if user != number and later and all(user not in self._reaches[n] for n in later):
                    found.append((one, user))
                    break
        return found

    def _settled(self, parameter: Any, make: bool = False) -> Any:
        """Return what is known of a parameter's gradient, brought up to date with a clearing."""
        known = self._fed.get(id(parameter))
        if known is None or known.parameter() is not parameter:
            if not make:
                return None
            known = self._fed[id(parameter)] = Gradient(parameter)
        if known.passes and not self.running:
            if _cleared(parameter.grad, known, self._zeros):
                if parameter._version == known.weight:  # else the weights were changed by it, as in SAM's first step
                    known.lost += known.passes
                known.passes, known.scaled = [], False
            elif id(parameter.grad) != known.tensor[0]:
                known.passes, known.scaled, known.by_hand = [], False, True
        return known


def _cleared(gradient: Any, known: Gradient, zeros: set[int]) -> bool:
    if gradient is None:
        return True
    plain = local(gradient)
    if isinstance(plain, Fake):
        return private.has_storage(plain) and plain.untyped_storage()._cdata in zeros
    # Real numbers lie on the CPU; a gradient that came out as zero all over was not touched since.
    return known.tensor != (id(gradient), gradient._version) and not bool(plain.any())
