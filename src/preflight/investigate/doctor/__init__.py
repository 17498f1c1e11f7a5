"""What each rank runs on and with, and what is not the same on all of them."""
