"""Features as Kaldi makes them."""

from . import kaldi

__all__ = ["kaldi"]
