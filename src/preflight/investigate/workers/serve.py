"""The process's own side: reads an order a line, does it, answers in a line. Ends when nobody gives orders any more."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from importlib import import_module
from typing import Any


def main() -> None:
    """Serve until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    for line in sys.stdin:
        order = json.loads(line)
        answer: dict[str, Any]
        try:
            function = getattr(import_module(order["module"]), order["function"])
            answer = {"answer": function(**order["with"])}
        except Exception as error:
            said = str(error).strip().splitlines() or [""]
            answer = {"error": f"{type(error).__name__}: {said[0][:500]}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    answers.flush()
    os._exit(0)  # a group whose other ranks are gone may not be taken down in order


def _end_with(parent: int) -> None:
    """End when the process that gives orders is gone, even in the middle of a call that does not come back."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(3)


if __name__ == "__main__":
    main()
