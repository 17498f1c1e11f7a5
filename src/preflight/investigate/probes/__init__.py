"""Probes: each module measures one part of a machine or a job, alone.

A module has a ``TITLE``, ``TOGETHER`` (whether its ranks work on it together), ``operations(settings)``, the names of what
it measures in order, and ``measure(operation, settings)``, which returns rows: ``name``, ``unit``, ``better``, ``samples``
and ``details``. It runs in a process of its own, in the interpreter that trains, with nothing but that one's torch.
"""
