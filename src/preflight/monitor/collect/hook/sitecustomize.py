"""Start-up hook: arms the recorder in a Python process that was started by ``preflight monitor``.

The folder of this file is put first on PYTHONPATH, so ``site`` imports it in every Python child.
It leaves the module search path as the program would have it, and runs the sitecustomize that it stands in front of.
"""

from __future__ import annotations

import os
import sys

_OLDEST = (3, 10)


def _run_the_other(here: str) -> None:
    """Import the sitecustomize that would have been found without this one."""
    import importlib.machinery

    found = importlib.machinery.PathFinder.find_spec("sitecustomize")
    if found is None or found.loader is None or os.path.dirname(os.path.abspath(found.origin or "")) == here:
        return
    import importlib.util

    module = importlib.util.module_from_spec(found)
    sys.modules["sitecustomize"] = module
    found.loader.exec_module(module)


def _arm(here: str) -> None:
    """Load the recorder as a package of its own, whatever is installed here, and arm it."""
    import importlib.util

    folder = os.path.dirname(here)
    name = "_preflight_recorder"
    spec = importlib.util.spec_from_file_location(
        name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)
    from importlib import import_module

    if sys.version_info[:2] < _OLDEST:
        _refuse(name)
    else:
        import_module(name + ".bootstrap").arm_from_environment()


def _refuse(name: str) -> None:
    """Leave word that this Python is too old; not on stderr, for it may be any tool that the program calls."""
    from importlib import import_module

    settings = import_module(name + ".settings").from_environment()
    if settings is not None:
        here, oldest = (".".join(map(str, version[:2])) for version in (sys.version_info, _OLDEST))
        import_module(name + ".arrivals").arrived(settings.folder, "refused", f"Python {here} is older than {oldest}")


def _start() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.getcwd()) != here]
    if os.environ.get("PREFLIGHT_MONITOR"):
        try:
            _arm(here)
        except Exception as error:  # the program must run as if nothing had been here
            sys.stderr.write(f"preflight monitor: not recording: {type(error).__name__}: {error}\n")
    _run_the_other(here)


_start()
