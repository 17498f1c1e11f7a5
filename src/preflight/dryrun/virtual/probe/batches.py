"""Smaller batches: fewer samples of a loader, of an option that names the batch, and of what the script moves to the GPU."""

from __future__ import annotations

import argparse
import re
from typing import Any

import torch
from torch.utils.data import DataLoader

from preflight.dryrun.virtual.progress import Progress

_OPTION = re.compile(
    r"(^|_)(batch_?size|bsz?|micro_?batch(_size)?|(train|eval|test|valid|val)_batch(_size)?)($|_)", re.I
)

_WHOLE = re.compile(r"total|global|effective", re.I)


class Cut:
    """Makes batches smaller.

    Args:
        samples: The most samples of a batch; None leaves them.
        tokens: The longest sequence of tokens; None leaves them.
        progress: Where the run is.

    Attributes:
        told: What was made smaller, for the report.
        sizes: Numbers of samples that are known to be a batch's: of loaders, and of what was cut.
    """

    def __init__(self, samples: int | None, tokens: int | None, progress: Progress) -> None:
        self.samples, self.tokens, self.progress = samples, tokens, progress
        self.told: dict[str, None] = {}
        self.sizes: set[int] = set()
        self.inside = 0
        self._cut: set[int] = set()

    def __call__(self, tensor: Any) -> Any:
        """Return a tensor that is moved to the GPU, or its first samples where it is a batch's."""
        if self.inside or tensor.requires_grad or isinstance(tensor, torch.nn.Parameter):
            return tensor
        words = not tensor.is_floating_point() and not tensor.is_complex()
        large = self.samples is not None and tensor.dim() > 0 and tensor.shape[0] > self.samples
        if large and (tensor.dim() > 2 or (words and (tensor.dim() == 2 or tensor.shape[0] in self._cut))):
            assert self.samples is not None
            self._note(f"batches of {tensor.shape[0]} samples cut to {self.samples}")
            self._cut.add(tensor.shape[0])
            self.sizes.add(self.samples)
            tensor = tensor[: self.samples].clone()
        if self.tokens is not None and words and tensor.dim() == 2 and tensor.shape[1] > self.tokens:
            self._note(f"sequences of {tensor.shape[1]} tokens cut to {self.tokens}")
            tensor = tensor[:, : self.tokens].clone()
        return tensor

    def _note(self, line: str) -> None:
        self.told.setdefault(line)

    def install(self) -> None:
        """Watch loaders, options and modules; parameters and buffers of a module are no batch."""
        self._modules()
        self._loaders()
        if self.samples is not None:
            self._options()

    def _modules(self) -> None:
        apply = torch.nn.Module._apply

        def applied(module: Any, *args: Any, **kwargs: Any) -> Any:
            self.inside += 1
            try:
                return apply(module, *args, **kwargs)
            finally:
                self.inside -= 1

        torch.nn.Module._apply = applied

    def _loaders(self) -> None:
        make = DataLoader.__init__

        def made(loader: Any, dataset: Any, batch_size: Any = 1, *args: Any, **kwargs: Any) -> None:
            if isinstance(batch_size, int) and self.samples is not None and batch_size > self.samples:
                self._note(f"batches of {batch_size} samples cut to {self.samples}")
                batch_size = self.samples
            make(loader, dataset, batch_size, *args, **kwargs)
            if isinstance(batch_size, int):
                self.sizes.add(batch_size)

        DataLoader.__init__ = made

    def _options(self) -> None:
        parse = argparse.ArgumentParser.parse_known_args

        def parsed(parser: Any, *args: Any, **kwargs: Any) -> Any:
            known, rest = parse(parser, *args, **kwargs)
            assert self.samples is not None
            for name, value in vars(known).items():
                if _WHOLE.search(name):
                    continue  # what several batches make up is counted by other options
                if isinstance(value, int) and value > self.samples and _OPTION.search(name):
                    self._note(f"option {name} {value} set to {self.samples}")
                    setattr(known, name, self.samples)
            return known, rest

        argparse.ArgumentParser.parse_known_args = parsed  # type: ignore[method-assign, assignment]
