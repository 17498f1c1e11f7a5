"""Arms the recorder in a process: waits for torch, then records until the process ends."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import signal
import sys
from types import FrameType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

from .arrivals import arrived
from .importing import Imports
from .settings import Settings, from_environment
from .tracebacks import without_own

if TYPE_CHECKING:
    from collections.abc import Iterator

_OLDEST = (2, 4)


def arm_from_environment() -> None:
    """Record this process from the moment it has torch, if the environment asks for it."""
    settings = from_environment()
    if settings is None:
        return
    arrived(settings.folder, "armed")
    imports = Imports()
    imports.when(
        "torch",
        lambda module: _begin(settings, imports, module),
        lambda: arrived(settings.folder, "importing"),
        lambda error: arrived(settings.folder, "failed", f"{type(error).__name__}: {error}"[:500]),
    )


def _begin(settings: Settings, imports: Imports, torch: ModuleType) -> None:
    try:
        if _version(torch) < _OLDEST:
            words = ".".join(str(part) for part in _OLDEST)
            arrived(settings.folder, "refused", f"PyTorch {torch.__version__} is older than {words}")
            sys.stderr.write(f"preflight monitor: not recording: PyTorch {torch.__version__} is older than {words}\n")
            return
        from .session import Session

        session = Session(settings, imports)
        session.start()
        _Ending(session).install()
        arrived(settings.folder, "torch")
    except Exception as error:
        arrived(settings.folder, "refused", f"{type(error).__name__}: {error}")
        sys.stderr.write(f"preflight monitor: not recording: {type(error).__name__}: {error}\n")


def _version(torch: ModuleType) -> tuple[int, int]:
    major, minor = str(torch.__version__).split(".")[:2]
    return int(major), int(minor)


class _Ending:
    """Notes how the process ends: by itself, by an exception, by ``sys.exit``."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.error: str | None = None
        self.hook: Any = None

    def install(self) -> None:
        own = sys.excepthook

        def excepthook(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> Any:
            with contextlib.suppress(Exception), _unhurried():
                self.error = _words(value)
                without_own(value)
                trace = value.__traceback__
            return own(kind, value, trace)

        sys.excepthook = self.hook = excepthook
        self._also_without_exit()
        for name in ("execv", "execve"):
            self._also_before(name)
        atexit.register(self.end)
        self.session.opened = self._again

    def _also_without_exit(self) -> None:
        """Close before ``os._exit`` ends the process: many programs end so where threads of a library would not.

        A child of ``fork`` that records ends so as well; one that does not has nothing to close.
        """
        own = os._exit

        @functools.wraps(own)
        def leave(*given: Any, **named: Any) -> Any:
            code = given[0] if given else named.get("status")
            with contextlib.suppress(BaseException):
                self.session.recorder.close("exit", code if type(code) is int else None, None)
            return own(*given, **named)

        os._exit = leave

    def _also_before(self, name: str) -> None:
        """Close before another program takes the place of this one, as where a training starts itself again.

        ``os.execvp`` tries one folder after the other by the same function, so only a file that can be run is the end.
        """
        own = getattr(os, name, None)
        if own is None:
            return

        @functools.wraps(own)
        def become(*given: Any, **named: Any) -> Any:
            with contextlib.suppress(BaseException):
                path = given[0] if given else named["path"]
                if isinstance(path, int) or (os.path.isfile(path) and os.access(path, os.X_OK)):
                    self.session.recorder.close("exec", None, None)
            return own(*given, **named)

        setattr(os, name, become)

    def _again(self) -> None:
        """Come before the writer, which closes its file at exit too: what was registered last is called first."""
        atexit.unregister(self.end)
        atexit.register(self.end)
        util = sys.modules.get("multiprocessing.util")
        if util is not None:
            # A child of multiprocessing leaves by another way than atexit; the writer comes right after, at -100.
            util.Finalize(None, self.end, exitpriority=-99)

    def end(self) -> None:
        error = self.error or self._unheard()
        with _unhurried():
            self.session.stop("exception" if error else "exit", None if error is None else 1, error)

    def _unheard(self) -> str | None:
        """What ends the process where the hook does not hear of it.

        A child of ``multiprocessing`` shows its exception itself, and is on its way out with it now; a program may have
        set a hook in the place of ours, and Python remembers what it called that with.
        """
        error = sys.exc_info()[1]
        if error is None and sys.excepthook is not self.hook and not hasattr(sys, "ps1"):
            error = getattr(sys, "last_value", None)
        if isinstance(error, SystemExit):
            error = error.__context__ if error.code else None
        return None if error is None else _words(error)


@contextlib.contextmanager
def _unhurried() -> Iterator[None]:
    """Let one interrupt pass while the process is on its way out: the trace would be cut off, and nothing be sooner.

    Who presses the keys twice, or a sender who reaches the process and its launcher, interrupts what ends already; the
    one after that is heard. A handler of the program's own stays as it is.
    """
    own = signal.getsignal(signal.SIGINT)

    def first(number: int, frame: FrameType | None) -> None:
        signal.signal(number, own)

    placed = False
    if own is signal.default_int_handler:
        with contextlib.suppress(ValueError):  # not in the main thread, which alone is interrupted
            signal.signal(signal.SIGINT, first)
            placed = True
    try:
        yield
    finally:
        if placed and signal.getsignal(signal.SIGINT) is first:
            signal.signal(signal.SIGINT, own)


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:500]
