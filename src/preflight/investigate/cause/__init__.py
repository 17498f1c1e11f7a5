"""What kind of failure it is: by signatures, exceptions, keys, missing files and the programs that print."""
