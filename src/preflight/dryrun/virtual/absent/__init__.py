"""Stand-ins for what is not there: packages, data, downloads, pretrained weights."""
