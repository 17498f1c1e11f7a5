"""Which package that is not installed is behind the end of a run."""

from __future__ import annotations

from preflight.dryrun.virtual.absent.inert import Kind, NotInstalled, inside
from preflight.dryrun.virtual.absent.wanting import STATE


def blamed(error: BaseException) -> BaseException:
    """Return the want of a package behind an error that C code, or Python itself, raised for a value of it."""
    message = str(error)
    if isinstance(error, TypeError) and "catching classes that do not inherit" in message and error.__context__:
        return error.__context__
    parents = "'super' object has no attribute" in message
    if isinstance(error, ModuleNotFoundError) or not (parents or NotInstalled.__name__ in message):
        return error
    trace, found = error.__traceback__, None
    while trace is not None:
        values = [*trace.tb_frame.f_locals.values()]
        held = [value for value in values if isinstance(type(value), Kind)] if parents else []
        inner = [vars(value) for value in values[:8] if type(value) is not NotInstalled and hasattr(value, "__dict__")]
        for one in (*held[:1], inside(values), inside([dict(part) for part in inner])):
            if one is not None:
                found = one
                break
        trace = trace.tb_next
    if found is None:
        return error
    path, born = (type(found)._path, "") if isinstance(type(found), Kind) else (found._path, found._born)
    top = path.partition(".")[0].partition("(")[0]
    made = f" of {born}" if born else ""
    return ModuleNotFoundError(f"No module named '{top}': {path}{made} is needed: {message}", name=top).with_traceback(
        error.__traceback__
    )


def never_called() -> str | None:
    """Return the message of a run that trained nothing because a package was handed the function that would have."""
    if STATE.needed:
        return next(iter(STATE.needed.values()))
    for function, path in STATE.handed.items():
        top = path.partition(".")[0].partition("(")[0]
        return f"No module named '{top}': {path} was handed {function}, which would have trained"
    return None


def settle(error: BaseException | None) -> None:
    """Take note that the run ended with an error, or for want of what a package was handed, and say no more of it."""
    if error is None:
        STATE.needed.clear()
    else:
        STATE.needed.pop(getattr(error, "name", None) or "", None)


def caught() -> list[str]:
    """Return what is to be said of packages whose want the script caught."""
    return [f"{message}; the script caught the error and went on" for message in STATE.needed.values()]
