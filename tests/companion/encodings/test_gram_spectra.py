import numpy as np
import pytest
import torch
from architectures import build
from invented import save_invented

from posym_companion.encodings.gram_spectra import GramSpectra, contents_of, spectra_of
from posym_companion.encodings.judges.gram_spectra import DRAWS, SIZES, random_products
from posym_companion.encodings.spectra import averaged_kernel
from posym_companion.ledger import ledger
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


def invented(folder, holds=True, logits=(True, False), rotated=True):
    generator = np.random.default_rng(0)
    arrays = {}
    for kind in ("query", "key", "logits"):
        arrays[kind] = np.sort(generator.random((3, 4, 3, 2, 5)) * np.array([2, 1, 1.5])[:, None, None, None, None])
        arrays[kind] = arrays[kind][..., ::-1]
        arrays[f"{kind}_holds"] = np.full((2, 4, 3, 2), True)
    arrays["key_holds"][0, 0, 0, 0] = holds
    for way, held in enumerate(logits):
        arrays["logits_holds"][way, 0, 0, 0] = held
    if not logits[1]:
        arrays["logits_holds"][1] = False
    arrays["query_holds"][1, 0, 0, 0] = rotated
    save_invented(GramSpectra().name, arrays, folder)
    return ledger("G26-1a", "G26-1b", folder=folder)


def test_the_claims_follow_the_matrices(tmp_path):
    theorem, logits = invented(tmp_path / "with")
    assert (theorem.verdict, logits.grade) == ("reproduced", "partly, 2 of 3")
    assert theorem.ours["Gram matrices of queries and keys times the averaged kernel, majorised"] == "48 of 48"
    assert logits.ours["logits weakly majorised in singular values, own rotation"] == "0 of 24"
    theorem, _ = invented(tmp_path / "against", holds=False)
    assert theorem.verdict == "refuted as stated"
    assert "47 of 48" in str(theorem.numbers)


@pytest.mark.parametrize(
    ("settings", "grade"),
    [
        ({"logits": (True, True)}, "reproduced in kind"),
        ({"logits": (False, True)}, "partly, 2 of 3"),
        ({"logits": (True, True), "rotated": False}, "partly, 2 of 3"),
        ({"logits": (False, False), "rotated": False}, "partly, 0 of 3"),
    ],
)
def test_each_of_three_ways_to_derive_a_matrix_has_two_sides(tmp_path, settings, grade):
    _, logits = invented(tmp_path, **settings)
    assert logits.grade == grade


def test_random_products_contract_and_sums_do_not():
    tried, held, biased = random_products()
    assert held == tried > 500
    # A bias may happen to contract; nothing makes it.
    assert biased < 0.2 * len(SIZES) * DRAWS
