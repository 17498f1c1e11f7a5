"""In the place of iopath: local files."""
