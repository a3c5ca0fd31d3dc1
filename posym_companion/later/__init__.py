"""Claims of later papers: what is run."""
