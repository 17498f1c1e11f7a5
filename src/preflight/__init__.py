"""Preflight: will this training script train, and will it train well?"""

__version__ = "0.1.0"
