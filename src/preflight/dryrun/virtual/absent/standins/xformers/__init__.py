"""What training scripts use of xformers."""

__version__ = "0.0.0"
