"""What stored results say about the claims: a file for each experiment, of the same name."""
