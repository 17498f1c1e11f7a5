"""Facts: read what the user has, never judge, never run it."""
