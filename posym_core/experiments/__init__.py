"""Experiments, one file each: settings in, measured arrays out."""
