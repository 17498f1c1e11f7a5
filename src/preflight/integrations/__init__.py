"""Monitoring in the places where people train: one file per trainer here, one per tracker in ``trackers``.

A file is named after the package that it needs, and imports it; nothing else of Preflight imports these files.
"""
