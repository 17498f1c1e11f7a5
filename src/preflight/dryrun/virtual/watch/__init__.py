"""What is watched while a script runs: one file for each kind of thing that rules later ask about."""
