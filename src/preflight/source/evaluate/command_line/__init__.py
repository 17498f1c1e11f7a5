"""A script's own command line, as the person gives it: as words, and as argparse reads it."""
