import numpy as np
import pytest
import torch
from architectures import build

from posym_companion.encodings.gram_spectra import contents_of, spectra_of
from posym_companion.encodings.spectra import averaged_kernel
from posym_profile.capture._capturing import capture


@pytest.mark.parametrize("name", ["Llama", "Gemma3"])
def test_contents_are_what_a_model_rotates(name):
    model = build(name)
    ids = torch.randint(5, 90, (2, 9), generator=torch.Generator().manual_seed(0))
    for call, (query, keys, angles, scale) in zip(
        capture(model, ids, rows=None), contents_of(model, ids, 9), strict=True
    ):
        found = spectra_of(query, keys, angles, scale)
        # The model's own logits, by the scale and rotation that it uses itself.
        own = torch.linalg.svdvals(call.logits().double())
        torch.testing.assert_close(found["logits"][2], own, rtol=1e-4, atol=1e-5)
        grams = torch.einsum("phid,phjd->phij", keys, keys)
        kernel = averaged_kernel(angles, 9)
        for way, gram in enumerate((grams, grams * kernel)):
            expected = np.linalg.eigvalsh(gram.numpy())[..., ::-1]
            np.testing.assert_allclose(found["key"][way], expected, rtol=1e-6, atol=1e-9)
        assert found["query_holds"][0].all()
        assert found["key_holds"][0].all()
        assert found["logits_holds"][0].all()
