"""One file an experiment: settings in, measured arrays out; one loop runs them all."""
