"""What training scripts use of torchtext, where it is not installed."""

from . import data, datasets, vocab

__version__ = "0.18.0"
__all__ = ["data", "datasets", "disable_torchtext_deprecation_warning", "vocab"]


def disable_torchtext_deprecation_warning() -> None:
    """Nothing warns."""
