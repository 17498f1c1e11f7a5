"""Parameters that no optimizer holds, as long as one that is still to be made may take them."""

from __future__ import annotations

from collections.abc import Set

from preflight.monitor.window import Call, Variable, Variables, Window

AHEAD = "optimizers.ahead"


class Awaited:
    """Follows what the program's text says of optimizers that may come, and what waits for them.

    Attributes:
        open: Whether an optimizer may still be made, or nobody knows.
    """

    def __init__(self) -> None:
        self.open = False
        self._waiting: dict[int, Call | None] = {}  # by number, the step at which it was seen last
        self._beside: set[str] = set()  # models that were there when something waited first

    def see(self, window: Window) -> None:
        """Take in a window."""
        for call in window.named(AHEAD):
            self.open = (call.args or {}).get("come") is not False

    def wait(self, idents: list[int], call: Call | None, window: Window) -> None:
        """Take in parameters that would have been forgotten, if no optimizer came."""
        if idents and not self._beside:
            self._beside = {one.root for one in window.run.variables.values()}
        self._waiting.update(dict.fromkeys(idents, call))

    def drop(self, ident: int) -> None:
        """Forget one that changes, has no gradients, or was told of."""
        self._waiting.pop(ident, None)

    def forgotten(self, window: Window, trained: Set[int]) -> dict[int, Call | None]:
        """At the end of a program that ended by itself: what waited in vain, and the step at which it was seen last.

        Args:
            window: The window.
            trained: What optimizers held at their steps.
        """
        if not self._waiting or not any(note.get("how") == "exit" for note in window.notes.get("end", ())):
            return {}
        known = window.run.variables
        left = {one: call for one, call in self._waiting.items() if one in known and known[one].optimizer < 0}
        self._waiting.clear()
        return {
            one: call
            for one, call in left.items()
            if one not in trained and not self._replaced(known[one], known, trained)
        }

    def _replaced(self, variable: Variable, variables: Variables, trained: Set[int]) -> bool:
        """Whether a later model of the same parameters has one like it that was trained."""
        forms = {root: _form(root, variables) for root in {one.root for one in variables.values()}}
        like = [root for root, form in forms.items() if root not in self._beside and form == forms[variable.root]]
        own = variable.name.partition(".")[2]
        return any(
            one.id in trained and one.root in like and one.name.partition(".")[2] == own for one in variables.values()
        )


def _form(root: str, variables: Variables) -> frozenset[tuple[str, tuple[int, ...]]]:
    """The names and shapes of the parameters of a model."""
    own = [one for one in variables.values() if one.root == root and one.kind == "parameter"]
    return frozenset((one.name.partition(".")[2], tuple(one.shape)) for one in own)
