"""The driver, as far as it is asked which GPU there is."""

from __future__ import annotations

from typing import Any


class _Driver:
    active: Any = None

    def set_active(self, active: Any) -> None:
        """Take a driver."""
        self.active = active


driver = _Driver()
