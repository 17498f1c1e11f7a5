"""The script ends with an exception in a dry run.

## What it does
Reports the exception with which a script ended when it ran on the virtual GPU, and the frames of its own code.

## Why
What raises on fake tensors raises on real ones: the shapes, types and devices are the same.
Exceptions that hang on numbers, files or packages that are missing here may not appear on the machine that trains.

## Fix
Read the message and the statement it points to.
Where data or a package is missing only here, run the check where it is there.

## When to ignore
When the message names a file, a package or a service that exists only where the run will be.

## References
- PyTorch documentation, fake tensors
"""

from __future__ import annotations

from preflight.check.rule import Rule

RULE = Rule(name="script-raises", code="RUN001", severity="error", confidence="possible", layer="V", tags=("dry-run",))
