"""The files of a check: which there are, how they lie on disk, and the comments and settings in them."""
