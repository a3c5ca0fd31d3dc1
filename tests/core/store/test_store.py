"""Finished parts of unfinished work."""

from __future__ import annotations

import numpy as np
import torch

from posym_core import store


def test_a_part_whose_arrays_run_along_their_columns_is_read_back(tmp_path):
    grid = np.arange(6.0).reshape(2, 3)
    columns = {"array": np.asfortranarray(grid), "stack": np.stack([grid.T, grid.T]), "tensor": torch.tensor(grid).T}
    store.write_part(tmp_path / "one.part.safetensors", columns)
    found, _ = store.read_part(tmp_path / "one.part.safetensors")
    for name, values in columns.items():
        np.testing.assert_array_equal(found[name].numpy(), np.asarray(values))


def test_what_is_asked_for_now_and_was_not_then_differs():
    """Unfinished work of before something could be asked for is not gone on with once it is."""
    asked = {"settings": {"size": 1, "cube": True}, "data": "b"}
    said = 'settings (cube: null there, true now) and other data (null there, "b" now)'
    assert store.describe_difference({"settings": {"size": 1}}, asked) == said
