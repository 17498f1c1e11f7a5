"""TRL's parser: as ``HfArgumentParser``."""

from preflight.source.evaluate.library.transformers import MODEL

__all__ = ["MODEL"]
