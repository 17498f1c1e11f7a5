"""The commands below ``preflight investigate``: each file is one."""
