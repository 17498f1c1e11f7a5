"""YAML files, in the place of ruamel.yaml; PyYAML reads and writes them."""

from preflight.dryrun.virtual.absent.standins.ruamel_yaml import *  # noqa: F403
from preflight.dryrun.virtual.absent.standins.ruamel_yaml import YAML, load, round_trip_dump, round_trip_load

__all__ = ["YAML", "load", "round_trip_dump", "round_trip_load"]
__version__ = "0.18.6"
