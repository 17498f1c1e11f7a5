"""The subcommands of ``preflight plan``, one file each: what has a file here is a subcommand, everything else is a plan."""
