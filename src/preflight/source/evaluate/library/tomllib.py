"""TOML by the standard library: as ``toml``."""

from preflight.source.evaluate.library.toml import MODEL

__all__ = ["MODEL"]
