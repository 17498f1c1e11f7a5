"""Job scripts: what a shell script for a scheduler starts, with which resources and arguments."""
