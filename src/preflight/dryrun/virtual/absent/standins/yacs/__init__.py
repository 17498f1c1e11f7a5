"""In the place of yacs."""
