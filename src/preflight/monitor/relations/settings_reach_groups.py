"""What a program sets on an optimizer reaches its groups."""

from __future__ import annotations

from collections.abc import Iterator

from preflight.monitor.mini import Mini
from preflight.monitor.relation import Example, Relation
from preflight.monitor.window import Window


class SettingsReachGroups(Relation):
    """A setting such as the learning rate is not given to an optimizer in a way that it never reads.

    Optimizers of ``torch.optim`` read their settings from ``param_groups``. A program that writes ``optimizer.lr = rate``
    makes an attribute that nothing looks at, and every step goes on with the rate that the optimizer was made with.
    Judged at each step of such an optimizer: broken where it has an attribute with the name of a setting, worth a number
    that none of its groups has, and that it was not made with.
    """

    name = "settings-reach-groups"
    needs = frozenset({"step"})
    wakes = frozenset({"step"})
    repeats = 1
    looks = frozenset({"step"})
    whole = False
    priority = 12
    cause = "the setting was assigned to the optimizer, which reads its settings from its groups"
    advice = "assign it in each group: for group in optimizer.param_groups: group['lr'] = rate"

    def see(self, window: Window) -> Iterator[Example]:
        for call in window.named("step"):
            aside = (call.args or {}).get("aside") or []
            yield Example(
                (),
                not aside,
                {},
                variables=(call.object, *aside),
                expected="settings in param_groups",
                seen=", ".join(f"{word} beside them" for word in aside) if aside else None,
                call=call,
                detail=f"{call.object} was given {', '.join(aside)} where it never looks" if aside else "",
            )

    @classmethod
    def holding(cls) -> Iterator[list[Window]]:
        yield _stepped(None)

    @classmethod
    def broken(cls) -> Iterator[list[Window]]:
        yield _stepped(["lr"])


def _stepped(aside: list[str] | None) -> list[Window]:
    mini = Mini({"model.weight": {}})
    told = {"closure": False, **({"aside": aside} if aside else {})}
    return [mini.window("backward", ("step optimizer0:SGD", {"args": told})) for _ in range(2)]
