"""Packages that are not installed where the dry run is made.

Those that do not touch the GPU's memory (loggers, plots, clouds) become recorders that take everything and do nothing.
Those that do have a stand-in with the same arithmetic, one module each in ``standins``. Every other one does nothing until
a value of it is needed (``inert``). What reads settings stays missing, as does what is part of an older Python, and a
package whose absence the script itself provides for (an import in ``try`` with a handler).
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
from typing import Any

from preflight.dryrun.virtual.absent import after, imports, inert, removed, uses, wanting
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
    "torchinfo torchstat pynvml py3nvml GPUtil nvidia_smi nvsmi line_profiler memory_profiler psutil codecarbon "
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
MATTER = frozenset(
    # What reads the command line and files of settings
    "tyro argbind fire absl simple_parsing hydra omegaconf gin sacred jsonargparse configargparse configobj tap docopt plac "
    "click typer cleo ml_collections typed_argparse pydantic pydantic_settings attr attrs dataclasses_json marshmallow dacite "
    "dotenv yaml toml tomli json5 confuse dynaconf pyrallis draccus clu "
    # Arrays and tensors of other kinds
    "numpy scipy pandas jax jaxlib flax optax haiku cupy paddle mxnet oneflow jittor keras chainer torch "
    # What classes and functions are made of
    "future six past typing_extensions decorator zope".split()
)
"""Top-level packages on whose values everything hangs, or that make classes and functions: without them nothing is known."""
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

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the specification of a stand-in, or None."""
        parent = sys.modules.get(fullname.rpartition(".")[0])
        if isinstance(parent, Inert):
            return importlib.machinery.ModuleSpec(fullname, InertLoader(), is_package=True)
        if isinstance(parent, inert.Package):
            return importlib.machinery.ModuleSpec(fullname, inert.Loader(), is_package=True)
        asker = None if "." in fullname else imports.importing(sys._getframe(1), __file__)
        if asker is None:
            return None
        file = asker.f_code.co_filename
        own = self.owns(file) and asker.f_lineno not in imports.may_fail(file)
        # A library is given a stand-in only where it cannot be imported without.
        needs = own or (not self.owns(file) and asker.f_lineno in imports.must_work(file))
        beside = self._beside(fullname) if own else None
        if beside is None and fullname == KERNELS and _module(asker) != "torch":
            self.assume(
                f"package {KERNELS} is not installed: its kernels are met as on a machine that has it, and not run"
            )
            return _standin(KERNELS)
        return beside or (needs and self._instead(fullname, own, asker)) or None

    def _beside(self, name: str) -> importlib.machinery.ModuleSpec | None:
        """Return a package of the project itself, which the person would have installed."""
        for folder in (self.root, os.path.join(self.root, "src")):
            found = importlib.machinery.PathFinder.find_spec(name, [folder])
            if found is not None and found.origin is not None:
                self.assume(f"package {name} is not installed: the project's own folder {folder} has it")
                sys.path.append(folder)
                return next((s for f in sys.meta_path if f is not self and (s := f.find_spec(name, None))), found)
        return None

    def _instead(self, name: str, own: bool, asker: FrameType) -> importlib.machinery.ModuleSpec | None:
        """Return what takes a package's place."""
        place = _standin(name)
        if place is not None:
            self.assume(
                f"package {name} is not installed: a stand-in with the same shapes and arithmetic took its place"
            )
            return place
        if name in self.inert and (own or not imports.provided_for(asker)):
            self.assume(f"package {name} is not installed: its calls did nothing")
            return importlib.machinery.ModuleSpec(name, InertLoader(), is_package=True)
        folder = os.path.dirname(asker.f_code.co_filename)
        settled = name in MATTER or removed.gone(name, folder) or imports.takes_all(asker)
        if not own or settled or imports.provided_for(asker):
            return None
        self.assume(
            f"package {name} is not installed: what it returns is not used by the training as far as this run went"
        )
        return importlib.machinery.ModuleSpec(name, inert.Loader(), is_package=True)


def _module(frame: FrameType) -> str:
    """Return the top-level package that a frame's code belongs to."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


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
    inner: list[ast.AST] = [uses.tree(getattr(sys.modules.get("__main__"), "__file__", None) or "")]
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
    guarded = (node for node in ast.walk(uses.tree(frame.f_code.co_filename)) if isinstance(node, ast.Try))
    return not any(
        part.lineno <= frame.f_lineno <= (part.end_lineno or part.lineno)
        for node in guarded
        if any(imports.handles(handler) for handler in node.handlers)
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


def _compile_nothing(module: Any) -> None:
    module.load = module.load_inline = inert.compiled


def install(owns: Callable[[str], bool], assume: Callable[[str], None], root: str, described: bool = False) -> None:
    """Have missing packages met with stand-ins.

    Args:
        owns: Whether a file is the person's own code.
        assume: Is given a line for each stand-in.
        root: The project's folder.
        described: Whether the person said what a batch holds, so that packages that give data can be done without.
    """
    wanting.STATE.owns, wanting.STATE.assume = owns, assume
    after.imported("torch.utils.cpp_extension", _compile_nothing)
    sys.meta_path.insert(0, _Board(assume))
    plain = importlib.util.find_spec

    def find_spec(name: str, package: str | None = None) -> importlib.machinery.ModuleSpec | None:
        """Say of a package with a stand-in that it is not installed: who asks can do without."""
        found = plain(name, package)
        own = name == KERNELS and owns(sys._getframe(1).f_code.co_filename)
        if found is None and (own or _asked_for(name)):
            return _standin(name)
        if (
            found is None
            or isinstance(found.loader, (InertLoader, inert.Loader))
            or (found.origin or "").startswith(STANDINS)
        ):
            return None
        return found

    importlib.util.find_spec = find_spec
    _versions()
    sys.meta_path.append(Finder(owns, assume, root, INERT | DATA if described else INERT))
