"""YAML by ruamel: as ``yaml``, with the numbers of YAML 1.2."""

from preflight.source.evaluate.library.yaml import MODEL

__all__ = ["MODEL"]
