"""A selection of weights that is saved holds all that are trained."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.views.paths import outer_modules
from preflight.monitor.window import State, Variable, Window
from preflight.vocabulary.counted import counted

_PLACES = 2


class SavedHoldsTrained(Relation):
    """Where only the trained parameters of a model are saved, all of them are.

    Adapters are saved without the weights that they lie beside, because these are frozen and known. A parameter that is
    trained besides (an embedding for new tokens, a head, a base that somebody forgot to freeze) is lost with them.
    A selection is taken for one of adapters where nothing of it is frozen and it takes a part of the parameters of
    modules in at least two places; a file without the head, or with the encoder alone, holds whole modules and is fine.
    What is saved in several parts, or files, one after the other is taken together.
    The other way round, a file that holds the frozen weights of such layers as they are, and nothing of what was trained
    beside them, has lost the training: the adapters were taken out of it before they were merged.
    """

    name = "saved-holds-trained"
    category = "checkpoint"
    needs = frozenset({"save", "state", "step"})
    wakes = frozenset({"exact file at saved", "file at saved"})
    severity = "warning"
    priority = 17
    cause = "what is saved is chosen by its name, and what is trained is not chosen in the same way"
    advice = "save what has requires_grad, or freeze what is not saved"

    def see(self, window: Window) -> Iterator[Example]:
        variables = window.run.variables
        files = [one for one in window.states if one.moment == "saved" and one.what == "file" and one.extra]
        elsewhere = {variables[ident].name for state in files for ident in state.ids if ident in variables}
        for state in files:
            saved = [variables[ident] for ident in state.ids if ident in variables]
            if not saved:
                continue
            missing = set((state.extra or {}).get("missing") or ())
            if not any(_trained(one) for one in saved):
                if window.step and len(_partly({one.name for one in saved}, missing)) >= _PLACES:
                    yield _example(state, self._stripped(state, missing - elsewhere, window), window)
                continue
            if any(not _trained(one) for one in saved):
                continue
            if len(_partly({one.name for one in saved}, missing)) < _PLACES:
                continue
            lost = tuple(
                one.name
                for one in variables.values()
                if one.name in missing - elsewhere and one.kind == "parameter" and _trained(one)
            )
            yield _example(state, lost, window)

    @staticmethod
    def _stripped(state: State, missing: set[str], window: Window) -> tuple[str, ...]:
        """What was trained beside frozen weights that were saved as they are; nothing where it was merged into them."""
        live = {
            ident: bits
            for one in window.states
            if one.moment == "saved" and one.what == "parameter" and one.bits
            for ident, bits in zip(one.ids, one.bits, strict=True)
        }
        pairs = zip(state.ids, state.bits or (), strict=False)
        if not all(bits is not None and live.get(ident, bits) == bits for ident, bits in pairs):
            return ()
        beside = [one for one in window.run.variables.values() if one.name in missing and _trained(one)]
        return tuple(one.name for one in beside)

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _saved(frozen=True)
        yield _saved(frozen=True, parts=("base", "low"))
        yield _saved(frozen=True, parts=("base",), merged=True)
        yield _saved(frozen=False, parts=("low", "base"))

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _saved(frozen=False)
        yield _saved(frozen=True, parts=("base",))


def _trained(one: Variable) -> bool:
    return one.trainable and one.optimizer >= 0


def _partly(saved: set[str], missing: set[str]) -> set[str]:
    """The innermost modules of which parameters, or whole parts with parameters, are saved and others are not."""
    lost = {module for name in missing for module in outer_modules(name)}
    found = {next((module for module in reversed(outer_modules(name)) if module in lost), "") for name in saved}
    return {module for module in found if "." in module}


def _example(state: State, lost: tuple[str, ...], window: Window) -> Example:
    call = next((one for one in window.named("save") if one.q == (state.extra or {}).get("call")), None)
    return Example(
        (),
        not lost,
        {},
        variables=lost,
        expected="all parameters that are trained",
        seen=counted(len(lost), "parameter that is trained is not saved", "parameters that are trained are not saved")
        if lost
        else None,
        call=call,
        detail="Parameters that are trained are not in what is saved" if lost else "",
    )


def _saved(frozen: bool, parts: tuple[str, ...] = ("low",), merged: bool = False) -> list[Window]:
    base = {"trainable": not frozen, "optimizer": -1 if frozen else 0}
    names = [f"net.{number}" for number in range(2)]
    mini = Mini({f"{name}.{part}.weight": base if part == "base" else {} for name in names for part in ("base", "low")})
    mini.window("backward", "step optimizer0:SGD")
    window = mini.window("backward", "step optimizer0:SGD", "save")
    variables = mini.run.variables.values()
    every = [one.id for one in variables]
    live: list[int | None] = [2 if merged else 1 for _ in every]
    window.states.append(State(98, 0, 0, 1, "saved", "parameter", "exact", every, [1.0] * len(every), live, None))
    for part in parts:
        ids = [one.id for one in variables if f".{part}." in one.name]
        missing = [one.name for one in variables if f".{part}." not in one.name]
        extra: dict[str, object] = {"call": window.named("save")[0].q, "under": "net", "missing": missing}
        norm: list[float | None] = [1.0 for _ in ids]
        bits: list[int | None] = [1 for _ in ids]
        window.states.append(State(99, 0, 0, 1, "saved", "file", "exact", ids, norm, bits, extra))
    return [window]
