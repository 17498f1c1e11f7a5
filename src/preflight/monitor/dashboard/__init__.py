"""A run as a page shows it while it goes on: which recordings there are, and their numbers in bounded space."""
