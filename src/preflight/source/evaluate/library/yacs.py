"""Configurations by yacs: as EasyDict."""

from preflight.source.evaluate.library.easydict import MODEL

__all__ = ["MODEL"]
