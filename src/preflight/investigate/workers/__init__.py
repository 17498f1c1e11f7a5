"""Processes that do one thing at a time for a live tool, each with a deadline, and that are replaced when they hang.

What runs in such a process (``serve``, ``group``, the probes) needs nothing but the standard library and the person's torch.
"""
