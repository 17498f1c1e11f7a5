"""TOML by tomli: as ``toml``."""

from preflight.source.evaluate.library.toml import MODEL

__all__ = ["MODEL"]
