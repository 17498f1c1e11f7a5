"""Other programs and processes: a dry run starts none.

A command that the script runs answers nothing, as if it had ended well. A process of Python's ``multiprocessing`` is a
thread of this one, and a pool of them does its work at once.
"""

from __future__ import annotations

import io
import multiprocessing
import multiprocessing.context
import multiprocessing.pool
import multiprocessing.process
import os
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from preflight.dryrun.virtual.absent import callers

_ANSWERS = {
    ("stty", "size"): "24 80\n",
    ("tput", "cols"): "80\n",
    ("tput", "lines"): "24\n",
    ("hostname",): "localhost\n",
    ("nproc",): f"{os.cpu_count() or 1}\n",
    ("git", "rev-parse"): "0" * 40 + "\n",
}
"""What common commands say: first words to output. Scripts take the answer apart and fail on an empty one."""


def answer_to(command: str) -> str:
    """Return what a command plausibly prints; nothing for one that is not known."""
    words = tuple(command.split()[:2])
    return _ANSWERS.get(words, _ANSWERS.get(words[:1], ""))


def install(owns: Callable[[str], bool], assume: Callable[[str], None]) -> None:
    """Answer commands of the person's own code, and keep processes in this one."""
    _commands(owns, assume)
    _processes()


def _commands(owns: Callable[[str], bool], assume: Callable[[str], None]) -> None:
    class Unstarted(subprocess.Popen):  # type: ignore[type-arg]
        """A command that was not run; for the person's own code it ends at once and says nothing."""

        def __init__(self, args: Any, *more: Any, **kwargs: Any) -> None:
            if not callers.asks(owns):
                super().__init__(args, *more, **kwargs)
                return
            self.args, self.returncode, self.pid = args, 0, 0
            said = args if isinstance(args, (str, bytes)) else " ".join(os.fsdecode(part) for part in args)
            answer = answer_to(os.fsdecode(said))
            took = "a plausible answer" if answer else "an empty answer"
            assume(f"command {os.fsdecode(said)[:80]} was not run: {took} took its place")
            text = any(kwargs.get(name) for name in ("text", "universal_newlines", "encoding", "errors"))
            self._nothing: Any = answer if text else answer.encode()
            made: Any = io.StringIO if text else io.BytesIO
            self.stdin = made() if kwargs.get("stdin") == subprocess.PIPE else None
            self.stdout = made(self._nothing) if kwargs.get("stdout") == subprocess.PIPE else None
            self.stderr = made() if kwargs.get("stderr") == subprocess.PIPE else None

        def communicate(self, input: Any = None, timeout: float | None = None) -> Any:
            """Return what was not written."""
            if not hasattr(self, "_nothing"):
                return super().communicate(input, timeout)
            said = None if self.stdout is None else self._nothing
            return said, None if self.stderr is None else type(self._nothing)()

        def wait(self, timeout: float | None = None) -> int:
            """Return success."""
            return 0

        def poll(self) -> int:
            """Return success."""
            return 0

        def send_signal(self, sig: int) -> None:
            """There is nobody to send it to."""

        def __exit__(self, *error: object) -> None:
            """Leave."""

        def __del__(self, *_: Any) -> None:
            """There is nothing to wait for."""

    def system(command: Any) -> int:
        assume(f"command {os.fsdecode(command)[:80]} was not run: an empty answer took its place")
        return 0

    subprocess.Popen = Unstarted  # type: ignore[misc]
    os.system = system


class Pool:
    """A pool that does its work at once, in this process."""

    def __init__(self, processes: Any = None, initializer: Any = None, initargs: Any = (), *_: Any, **__: Any) -> None:
        self._processes = 1
        if initializer is not None:
            initializer(*initargs)

    def apply(self, func: Any, args: Any = (), kwds: Any = None) -> Any:
        """Return what a call gives."""
        return func(*args, **(kwds or {}))

    def map(self, func: Any, iterable: Iterable[Any], chunksize: Any = None) -> list[Any]:
        """Return what each call gives."""
        return [func(item) for item in iterable]

    def starmap(self, func: Any, iterable: Iterable[Any], chunksize: Any = None) -> list[Any]:
        """Return what each call gives."""
        return [func(*item) for item in iterable]

    def imap(self, func: Any, iterable: Iterable[Any], chunksize: Any = 1) -> Iterator[Any]:
        """Yield what each call gives."""
        return (func(item) for item in iterable)

    imap_unordered = imap

    def apply_async(self, func: Any, args: Any = (), kwds: Any = None, callback: Any = None, *_: Any) -> Any:
        """Return a result that is there."""
        return _Done(self.apply(func, args, kwds), callback)

    def map_async(self, func: Any, iterable: Iterable[Any], chunksize: Any = None, callback: Any = None) -> Any:
        """Return a result that is there."""
        return _Done(self.map(func, iterable), callback)

    def starmap_async(self, func: Any, iterable: Iterable[Any], chunksize: Any = None, callback: Any = None) -> Any:
        """Return a result that is there."""
        return _Done(self.starmap(func, iterable), callback)

    def close(self) -> None:
        """There is nothing to close."""

    terminate = join = close

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *error: object) -> None:
        """Leave."""


class _Done:
    def __init__(self, value: Any, callback: Any) -> None:
        self.value = value
        if callback is not None:
            callback(value)

    def get(self, timeout: Any = None) -> Any:
        """Return the value."""
        return self.value

    def wait(self, timeout: Any = None) -> None:
        """It is there."""

    def ready(self) -> bool:
        """It is there."""
        return True

    successful = ready


class _Manager:
    """Shares what one process need not share."""

    def __getattr__(self, name: str) -> Any:
        import queue

        plain = {"dict": dict, "list": list, "Queue": queue.Queue, "Namespace": _Namespace}
        return plain[name] if name in plain else getattr(threading, name)

    def __enter__(self) -> _Manager:
        return self

    def __exit__(self, *error: object) -> None:
        """Leave."""

    def shutdown(self) -> None:
        """There is nothing to end."""


class _Namespace:
    pass


def _processes() -> None:
    def pool(*args: Any, **kwargs: Any) -> Pool:
        kwargs.pop("context", None)
        return Pool(*args[1:] if args and isinstance(args[0], multiprocessing.context.BaseContext) else args, **kwargs)

    multiprocessing.context.BaseContext.Pool = pool  # type: ignore[method-assign,assignment]
    multiprocessing.context.BaseContext.Manager = lambda *_: _Manager()  # type: ignore[method-assign,assignment]
    multiprocessing.Pool, multiprocessing.Manager = pool, _Manager  # type: ignore[assignment]
    multiprocessing.pool.Pool = Pool  # type: ignore[assignment,misc]
    _as_threads(multiprocessing.process.BaseProcess)
    import concurrent.futures.process

    concurrent.futures.ProcessPoolExecutor = concurrent.futures.process.ProcessPoolExecutor = _Executor  # type: ignore[misc,assignment]


class _Executor:
    """An executor that does its work at once."""

    def __init__(
        self, max_workers: Any = None, mp_context: Any = None, initializer: Any = None, initargs: Any = (), **_: Any
    ) -> None:
        if initializer is not None:
            initializer(*initargs)

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Return a future that is done."""
        import concurrent.futures

        future: Any = concurrent.futures.Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future

    def map(self, fn: Any, *iterables: Any, timeout: Any = None, chunksize: int = 1) -> Iterator[Any]:
        """Yield what each call gives."""
        return map(fn, *iterables)

    def shutdown(self, wait: bool = True, cancel_futures: bool = False) -> None:
        """There is nothing to end."""

    def __enter__(self) -> _Executor:
        return self

    def __exit__(self, *error: object) -> None:
        """Leave."""


def _as_threads(owner: Any) -> None:
    def start(process: Any) -> None:
        process._thread = threading.Thread(target=process.run, name=process.name, daemon=True)
        process._thread.start()

    def join(process: Any, timeout: float | None = None) -> None:
        process._thread.join(timeout)

    def alive(process: Any) -> bool:
        thread = getattr(process, "_thread", None)
        return thread is not None and thread.is_alive()

    owner.start, owner.join, owner.is_alive = start, join, alive
    owner.terminate = owner.kill = owner.close = lambda process: None
    owner.exitcode = property(lambda process: None if alive(process) else 0)
    owner.pid = owner.ident = property(lambda process: os.getpid())
