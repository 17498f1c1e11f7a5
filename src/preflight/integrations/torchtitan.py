"""torchtitan: ``monitored(Trainer)`` before the program's ``main()``, or as a decorator of a trainer of its own."""

from __future__ import annotations

import functools
from typing import Any, TypeVar

from preflight.integrations.watching import Watching

T = TypeVar("T", bound=type)


def monitored(trainer: T, output: Any = None, **asked: Any) -> T:
    """Record and watch the method ``train`` of a trainer's class.

    The configuration builds the class that it belongs to, so the class itself is changed, and no other is made.

    Args:
        trainer: torchtitan's ``Trainer``, or a class made of it.
        output: The trace folder.
        asked: What else ``preflight.monitoring`` takes; ``trackers`` are those in use unless some are given.

    Returns:
        The class. A trainer of it has ``watching``, whose ``report`` is there when the training has ended.
    """
    train = trainer.train  # type: ignore[attr-defined]

    @functools.wraps(train)
    def watched(self: Any, *words: Any, **named: Any) -> Any:
        self.watching = watching = Watching(output, **asked)
        watching.begin()
        try:
            result = train(self, *words, **named)
        except BaseException as error:
            watching.end(error)
            raise
        watching.end()
        return result

    trainer.train = watched  # type: ignore[attr-defined]
    return trainer
