"""The subcommands of ``preflight monitor``, one file each: what has a file here is a subcommand."""
