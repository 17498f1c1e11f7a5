"""Constraints: one file each, found by listing this folder."""
