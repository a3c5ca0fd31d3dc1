"""Two scores of heads with a known dependence."""

import numpy as np


def planted(prompts=12, layers=10, heads=4, seed=0, slope=-0.8, noise=0.2):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(1, layers, heads)) + 0.1 * generator.normal(size=(prompts, layers, heads))
    y = slope * x + noise * generator.normal(size=(1, layers, heads))
    return x, y
