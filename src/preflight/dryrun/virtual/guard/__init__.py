"""What a script may not do in a dry run, and how it is ended."""
