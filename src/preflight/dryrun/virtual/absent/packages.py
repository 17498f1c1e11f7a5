"""Packages that are not installed where the dry run is made.

Those that do not touch the GPU's memory (loggers, plots, clouds) become recorders that take everything and do nothing.
Those that do have a stand-in with the same arithmetic, one module each in ``standins``. Every other one that is missing
stays missing, and so does one whose absence the script itself provides for (an import in ``try`` with a handler).
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from types import FrameType, ModuleType

from preflight.dryrun.virtual.absent.recorders import Inert, InertLoader

STANDINS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "standins")
INERT = frozenset(
    # Loggers, trackers, plots
    "wandb tensorboard tensorboardX tensorflow boto3 botocore matplotlib seaborn visdom neptune mlflow comet_ml clearml "
    "aim dvclive swanlab trackio hydra_colorlog colorama termcolor coloredlogs loguru prettytable tabulate blessed "
    "tensorboard_logger art pyfiglet lightning_logs knockknock neptune_client "
    "progress texttable plotly bokeh imageio imageio_ffmpeg moviepy skvideo "
    # Measures of samples and texts, and what watches the machine
    "openai anthropic lpips pytorch_fid cleanfid torch_fidelity pycocotools rouge_score sacrebleu bleu nltk thop ptflops torchsummary "
    "torchinfo fvcore torchstat pynvml py3nvml GPUtil nvidia_smi nvsmi line_profiler memory_profiler psutil codecarbon "
    # Clouds, queues, version control
    "google.cloud s3fs gcsfs azure wget gdown submitit ray git gitpython slack_sdk telegram sentry_sdk requests_toolbelt".split()
)
"""Top-level packages that hold no tensors of a training."""
DATA = frozenset(
    "datasets webdataset ffcv torchdata tensorflow_datasets streaming petastorm lmdb h5py deeplake decord av nvidia".split()
)
"""Top-level packages that give data, which the person may describe instead."""
KERNELS = "triton"
"""What comes with PyTorch for a GPU: who imports it only where it is there gets it, too, save PyTorch itself."""
_TORCH_BOARD = "torch.utils.tensorboard"


class Finder(importlib.abc.MetaPathFinder):
    """Finds a stand-in for what nothing else found.

    Args:
        owns: Whether a file is the person's own code.
        assume: Is given a line for each package that has a stand-in.
        root: The project's folder, whose own packages the person would have installed.
        inert: The packages that become recorders.
    """

    def __init__(
        self, owns: Callable[[str], bool], assume: Callable[[str], None], root: str, inert: frozenset[str] = INERT
    ) -> None:
        self.owns, self.assume, self.root, self.inert = owns, assume, root, inert
        self._excused: dict[str, set[int]] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the specification of a stand-in, or None."""
        top = fullname.partition(".")[0]
        parent = sys.modules.get(fullname.rpartition(".")[0])
        if isinstance(parent, Inert):
            return importlib.machinery.ModuleSpec(fullname, InertLoader(), is_package=True)
        if fullname == top and self._wanted(True):
            for folder in (self.root, os.path.join(self.root, "src")):
                own = importlib.machinery.PathFinder.find_spec(fullname, [folder])
                if own is not None and own.origin is not None:
                    self.assume(f"package {top} is not installed: the project's own folder {folder} has it")
                    sys.path.append(folder)
                    return next((s for f in sys.meta_path if f is not self and (s := f.find_spec(fullname, None))), own)
        if fullname == KERNELS and _importer_is_not_torch():
            self.assume(f"package {top} is not installed: its kernels are met as on a machine that has it, and not run")
            return _standin(top)
        if fullname == top and self._wanted(top in self.inert):
            place = _standin(top)
            if place is not None:
                self.assume(
                    f"package {top} is not installed: a stand-in with the same shapes and arithmetic took its place"
                )
                return place
            if top in self.inert:
                self.assume(f"package {top} is not installed: its calls did nothing")
                return importlib.machinery.ModuleSpec(fullname, InertLoader(), is_package=True)
        return None

    def _wanted(self, own_only: bool) -> bool:
        """Whether the import that is under way needs the package: no query, no import that may fail."""
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and ("importlib" in frame.f_code.co_filename or frame.f_code.co_filename == __file__):
            if frame.f_code.co_filename.endswith("util.py"):
                return False
            frame = frame.f_back
        if frame is None:
            return False
        name = frame.f_code.co_filename
        if self.owns(name):
            return frame.f_lineno not in self._may_fail(name)
        # A library is given one only where it cannot be imported without.
        return not own_only and frame.f_lineno in self._must_work(name)

    def _must_work(self, filename: str) -> set[int]:
        """Return the lines of a file's imports that nothing guards."""
        lines: set[int] = set()
        inner: list[ast.AST] = [_tree(filename)]
        while inner:
            node = inner.pop()
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
            elif isinstance(node, ast.Try) and any(_handles(handler) for handler in node.handlers):
                inner += [*node.orelse, *node.finalbody]
            elif not isinstance(node, ast.expr):
                inner += ast.iter_child_nodes(node)
        return lines

    def _may_fail(self, filename: str) -> set[int]:
        """Return the lines of a file at which a missing package is provided for."""
        if filename not in self._excused:
            lines: set[int] = set()
            for node in ast.walk(_tree(filename)):
                if isinstance(node, ast.Try) and any(_handles(handler) for handler in node.handlers):
                    lines.update(n.lineno for part in node.body for n in ast.walk(part) if hasattr(n, "lineno"))
            self._excused[filename] = lines
        return self._excused[filename]


def _importer_is_not_torch() -> bool:
    """Whether other code than PyTorch's imports something, rather than asks whether it is there."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and ("importlib" in frame.f_code.co_filename or frame.f_code.co_filename == __file__):
        if frame.f_code.co_filename.endswith("util.py"):
            return False
        frame = frame.f_back
    return frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] != "torch"


def _tree(filename: str) -> ast.Module:
    """Return the syntax of a file; an empty one where it cannot be read."""
    try:
        with open(filename, "rb") as file:
            return ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return ast.Module([], [])


def _handles(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    names = {n.id for n in ast.walk(handler.type) if isinstance(n, ast.Name)}
    return bool(
        names & {"ImportError", "ModuleNotFoundError", "PackageNotFoundError", "Exception", "BaseException"}
    ) and not any(isinstance(n, ast.Raise) for part in handler.body for n in ast.walk(part))


def _standin(top: str) -> importlib.machinery.ModuleSpec | None:
    folder = os.path.join(STANDINS, top)
    if os.path.isdir(folder):
        return importlib.util.spec_from_file_location(
            top, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
        )
    if os.path.isfile(folder + ".py"):
        return importlib.util.spec_from_file_location(top, folder + ".py")
    return None


class _Board(importlib.abc.MetaPathFinder):
    """``torch.utils.tensorboard`` where tensorboard is missing."""

    def __init__(self, assume: Callable[[str], None]) -> None:
        self.assume = assume

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a recorder for that one module."""
        if fullname != _TORCH_BOARD or importlib.machinery.PathFinder.find_spec("tensorboard") is not None:
            return None
        self.assume("package tensorboard is not installed: its calls did nothing")
        return importlib.machinery.ModuleSpec(fullname, InertLoader(), is_package=True)


def _asked_for(name: str) -> bool:
    """Whether the script itself imports a package that has a stand-in, with nothing to fall back on."""
    if "." in name or _standin(name) is None:
        return False
    inner: list[ast.AST] = [_tree(getattr(sys.modules.get("__main__"), "__file__", None) or "")]
    while inner:
        node = inner.pop()
        named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        named += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        if any(top.partition(".")[0] == name for top in named):
            return True
        if not isinstance(node, (ast.expr, ast.Try)):
            inner += ast.iter_child_nodes(node)
    return False


def _insists(frame: FrameType) -> bool:
    """Whether a line that asks for a package's version makes no provision for its absence."""
    guarded = (node for node in ast.walk(_tree(frame.f_code.co_filename)) if isinstance(node, ast.Try))
    return not any(
        part.lineno <= frame.f_lineno <= (part.end_lineno or part.lineno)
        for node in guarded
        if any(_handles(handler) for handler in node.handlers)
        for part in node.body
    )


def _versions() -> None:
    """Give the stand-ins of what the script imports a version, as installed packages have one."""
    import importlib.metadata as metadata

    plain = metadata.version

    def version(distribution_name: str) -> str:
        try:
            return plain(distribution_name)
        except metadata.PackageNotFoundError:
            spec = None if "." in distribution_name else _standin(distribution_name)
            if spec is None or not (_asked_for(distribution_name) or _insists(sys._getframe(1))):
                raise
            assert spec.loader is not None
            if distribution_name not in sys.modules:
                sys.modules[distribution_name] = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(sys.modules[distribution_name])
            return str(sys.modules[distribution_name].__version__)

    metadata.version = version


def install(owns: Callable[[str], bool], assume: Callable[[str], None], root: str, described: bool = False) -> None:
    """Have missing packages met with stand-ins.

    Args:
        owns: Whether a file is the person's own code.
        assume: Is given a line for each stand-in.
        root: The project's folder.
        described: Whether the person said what a batch holds, so that packages that give data can be done without.
    """
    sys.meta_path.insert(0, _Board(assume))
    plain = importlib.util.find_spec

    def find_spec(name: str, package: str | None = None) -> importlib.machinery.ModuleSpec | None:
        """Say of a package with a stand-in that it is not installed: who asks can do without."""
        found = plain(name, package)
        own = name == KERNELS and owns(sys._getframe(1).f_code.co_filename)
        if found is None and (own or _asked_for(name)):
            return _standin(name)
        if found is None or isinstance(found.loader, InertLoader) or (found.origin or "").startswith(STANDINS):
            return None
        return found

    importlib.util.find_spec = find_spec
    _versions()
    sys.meta_path.append(Finder(owns, assume, root, INERT | DATA if described else INERT))
