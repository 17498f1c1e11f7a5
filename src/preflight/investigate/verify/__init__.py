"""Whether a fix fixed it: the problem gone with a stated exposure, nothing slower, nothing worse."""
