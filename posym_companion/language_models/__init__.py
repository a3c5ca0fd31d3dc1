"""Heads of language models as they are: what is run, and what only it needs."""
