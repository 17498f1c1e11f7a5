"""The relations: one file each, found by their files."""
