"""Functions of the second version."""

from __future__ import annotations

from ..functional import *  # noqa: F403
