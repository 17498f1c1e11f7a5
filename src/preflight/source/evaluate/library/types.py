"""``SimpleNamespace``: as argparse's."""

from preflight.source.evaluate.library.argparse import MODEL

__all__ = ["MODEL"]
