"""Command lines by defopt: a function or class is called with its defaults."""

from preflight.source.evaluate.library.fire import MODEL

__all__ = ["MODEL"]
