"""In the place of fvcore."""

__version__ = "0.1.6"
