"""Claims of later papers: what is run, and what judges it in ``judges``."""
