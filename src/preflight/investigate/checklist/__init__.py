"""Checklists: items checked on this machine, in the script or by a person; critical and not checked is never a pass."""
