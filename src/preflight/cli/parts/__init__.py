"""What commands share: their options, how a check is run, how an answer leaves the program."""
