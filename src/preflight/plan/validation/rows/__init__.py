"""One file per source of measurements; its name is the source's, its ``express`` puts a row into words."""
