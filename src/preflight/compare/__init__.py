"""Reports side by side: what changed from one to the other."""
