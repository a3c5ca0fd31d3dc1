"""The papers beside the package: what is run, and what stored results say."""
