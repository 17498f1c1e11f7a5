"""Measurements, of which there are none."""

from __future__ import annotations

import sys

from preflight.dryrun.virtual.absent.recorders import Inert

sys.modules[__name__].__class__ = Inert
