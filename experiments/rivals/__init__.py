"""Methods that the paper compares GPz with, or stand-ins for them."""
