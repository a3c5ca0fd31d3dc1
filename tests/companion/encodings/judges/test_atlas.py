"""The atlas, whose cells say what proofs and results say, and the playground, which shows what heads do."""

import functools

import numpy as np
import pytest
import torch
from invented import save_invented

from posym_companion.encodings import ability_table, witnesses
from posym_companion.encodings.encoding_study import EncodingStudy
from posym_companion.encodings.encoding_tasks import TESTS
from posym_companion.encodings.head_playground import KEYS, LEVELS, SPREADS, knob, playground
from posym_companion.encodings.judges import atlas
from posym_companion.encodings.judges.atlas import COLUMNS, Column, TableCell, atlas_rows, write_atlas
from posym_companion.encodings.known_heads import KNOWN_HEADS, KnownHeads
from posym_core.encodings import ENCODINGS, LABELS, Encoding, register_encoding
from posym_core.metrics._rope import rope_angles
from posym_core.store._resuming import ResultError


@functools.cache
def of(part, name):
    """``[spread, knob, ...]``"""
    return np.stack([getattr(playground(name, spread), part) for spread in SPREADS])


def test_every_encoding_has_a_label_and_a_knob():
    assert list(LABELS) == list(ENCODINGS)
    for name in ENCODINGS:
        texts = [text for text, _ in knob(name)]
        assert len(texts) == LEVELS
        assert len(set(texts)) == (1 if name in ("nope", "rollpe") else LEVELS), name


class Parity(Encoding):
    """Made up: keys an even number of positions behind the query get one more."""

    def _logits(self, query, key, positions, content):
        return self.content_logits(query, key) + ((positions - positions[:, None]) % 2 == 0)

    def _cross_logits(self, query, keys, at, places, inputs):
        rows = self.content_logits(query[..., None, :], keys)[..., 0, :]
        return rows[..., None] + ((places - at) % 2 == 0)


def test_a_new_encoding_is_one_entry(monkeypatch, tmp_path):
    """Atlas, abilities and playground see it; what its heads can be is another, and not needed for the rest."""
    assert "parity" not in ENCODINGS
    monkeypatch.setattr(ENCODINGS, "_own", dict(ENCODINGS._own))
    register_encoding("parity", "every second", bounded=True)(Parity)
    unknown = ability_table(["parity"])
    assert {(each.possible, each.reason) for each in unknown} == {(None, "nobody has proved yet what its heads can be")}
    assert [cell.text for cell in atlas_rows(columns=COLUMNS[:3], folder=tmp_path)[-1].cells] == ["–"] * 3
    known = KnownHeads(
        answers=((True, "a query of 0"), (False, "one more is one more"), (True, "every head is a sum")),
        witness=witnesses.bias_witness,
    )
    monkeypatch.setitem(KNOWN_HEADS, "parity", known)
    keep(tmp_path, "parity", [[[1.0, 0.9, 0.1]]] * 4)
    # The last two columns read experiments, which list encodings when they are imported.
    columns = COLUMNS[:6]
    *others, row = atlas_rows(columns=columns, folder=tmp_path)
    assert [each.encoding for each in others] + [row.encoding] == list(ENCODINGS)
    assert [cell.text for cell in row.cells[:5]] == ["✓", "✗", "✓", "1.00<br>32† / 32†", "1.00<br>32†"]
    assert write_atlas([row], columns=columns)[1][0] == "**every\u00a0second**"
    positional, symbolic, additive = ability_table()[-3:]
    assert (positional.encoding, positional.possible, positional.reason) == ("parity", True, "a query of 0")
    assert positional.shortfall < 1e-26 < symbolic.shortfall
    assert additive.shortfall < 1e-26
    played = playground("parity", 0.0)
    assert played.knobs == ("nothing to set",) * LEVELS
    assert played.movement.max() < 1e-12
    np.testing.assert_allclose(played.shares[0], [1, 0, 0], atol=1e-12)  # equal contents: position alone


def test_cross_logits_of_the_playground_are_those_of_a_loop():
    """RoPE with all angles halved, written out with complex numbers."""
    generator = torch.Generator().manual_seed(3)
    drawn = torch.randn(KEYS + 1, 14, generator=generator, dtype=torch.float64)
    shared = drawn[-1] / drawn[-1].norm() * (5 * 14**0.5) ** 0.5
    level, column = 3, SPREADS.index(0.5)
    assert knob("rope")[level][0] == "angles times 0.5"
    expected = torch.zeros(KEYS, KEYS)
    for a in range(KEYS):
        key = shared + 0.5 * drawn[a]
        for b in range(KEYS):
            turned = torch.polar(torch.ones(7).double(), rope_angles(14) / 2 * (b - KEYS))
            product = torch.complex(*key.split(7)) * turned * torch.complex(*shared.split(7)).conj()
            expected[a, b] = product.real.sum() / 14**0.5
    np.testing.assert_allclose(of("C", "rope")[column, level], expected - expected.mean(), atol=1e-6)


def test_a_spread_between_the_frames_is_played_as_well():
    """By ALiBi contents and places add: twice the spread doubles what rows differ by, and moves no column."""
    one, two = (playground("alibi", spread).C[3] for spread in (0.37, 0.74))
    rows, columns = ((C.mean(1), C.mean(0)) for C in (one, two))
    np.testing.assert_allclose(columns[0], 2 * rows[0], atol=1e-12)
    np.testing.assert_allclose(columns[1], rows[1], atol=1e-12)
    for spread in (-0.1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=f"spread must be a finite number of at least 0; got {spread}"):
            playground("alibi", spread)


def test_attention_is_the_softmax_of_the_diagonal_but_for_urpe():
    for name in ("nope", "alibi", "dape", "rope"):
        diagonal = np.exp(np.diagonal(of("C", name), axis1=-2, axis2=-1))
        np.testing.assert_allclose(of("attention", name), diagonal / diagonal.sum(-1, keepdims=True), atol=1e-9)
    total = of("attention", "urpe").sum(-1)
    np.testing.assert_allclose(total[:, 0], 1)
    assert np.abs(total[:, -1] - 1).max() > 0.3
    assert of("attention", "urpe").min() < 0


def test_where_a_logit_is_no_number_of_its_own_the_playground_says_so():
    for name in ("carope", "selective-rope", "path"):
        assert np.isnan(of("C", name)).all()
        assert np.isnan(of("shares", name)).all()
        assert of("movement", name)[-1, -1].max() > 1
        assert of("movement", name)[0].max() < 1e-12  # equal contents are no path
    for name in ("carope", "selective-rope"):
        assert of("movement", name)[:, 0].max() < 1e-12  # no pull: RoPE
    for name in ("nope", "alibi", "dape", "rope", "grape-m", "grape-a", "tapa", "urpe"):
        assert of("movement", name).max() < 1e-12
    assert np.isnan(of("C", "urpe")).all()


def test_shares_and_scores_of_the_playground():
    assert of("shares", "alibi")[..., 2].max() < 1e-12
    np.testing.assert_allclose(of("shares", "nope")[1:, :, 1], 1)
    assert np.isnan(of("shares", "nope")[0]).all()  # equal contents and no positions: a constant
    assert of("shares", "rope")[..., 2].max() > 0.02
    np.testing.assert_allclose(of("shares", "dape")[:, 0, 2], 0, atol=1e-12)
    assert of("shares", "dape")[-1, -1, 2] > 0.01
    np.testing.assert_allclose(of("shares", "grape-m")[1:, -1, 1], 1)  # whole turns
    assert of("shares", "grape-m")[-1, -2, 2] > 0.02
    np.testing.assert_allclose(of("scores", "rope")[0, :, 0], 1, atol=1e-9)


def keep(folder, name, accuracy):
    arrays = {
        "accuracy": np.array(accuracy),
        "chance": np.array([1 / 32, 1 / 32, 1 / 8, 1 / 8]),
        "lengths": np.array([16, 32, 64]),
    }
    save_invented(f"encoding_tasks/{name}", arrays, folder)


def test_cells_say_what_was_measured(tmp_path):
    assert len(TESTS) == 4
    keep(tmp_path, "rope", [[[1.0, 0.1, 0.9]], [[1.0, 0.9, 0.1]], [[1.0, 1.0, 0.8]], [[0.3, 0.9, 0.9]]])
    end = [[1.0, np.nan, np.nan], [0.9, np.nan, np.nan]]
    keep(tmp_path, "learned", [end, end, end, [[0.2, np.nan, np.nan]] * 2])
    rope, learned, nope = atlas_rows(["rope", "learned", "nope"], folder=tmp_path)
    assert [cell.text for cell in rope.cells[3:6]] == ["1.00<br>16 / 32", "1.00<br>64", "0.30<br>✗"]
    assert [cell.good for cell in rope.cells] == [True, False, False, True, True, False, None, None]
    assert [cell.text for cell in learned.cells[3:6]] == ["0.95<br>16† / 16†", "0.95<br>16†", "0.20<br>✗"]
    assert [cell.text for cell in nope.cells] == ["✗", "✓", "✗"] + ["—"] * 5
    table = write_atlas([rope, learned, nope])
    spaced = [[cell.replace("\u00a0", " ") for cell in line] for line in table]
    assert spaced[0] == ["", "P · S · P+S", "Index", "Retr.", "Ind.", "Dist.", "Count"]
    assert spaced[1][:3] == ["**RoPE**", "✓ · ✗ · ✗", "1.00<br>16 / 32"]
    assert [len(line) for line in table] == [7] * 4
    # No cell can be broken into lines but where it says so.
    assert not [cell for line in table for cell in line if " " in cell]


def keep_study(folder, task, setup, accuracy):
    save_invented(EncodingStudy(task=task, setup=setup).name, {"accuracy": np.array(accuracy)}, folder)


def test_cells_of_distance_and_count_have_mean_and_range(tmp_path):
    keep_study(tmp_path, "distance", "rope", [0.9, 1.0, 0.98])
    keep_study(tmp_path, "distance", "nope", [0.09, 0.1])
    keep_study(tmp_path, "distance", "nope-released", [0.5, 0.5])  # another set-up, which the table leaves alone
    keep_study(tmp_path, "count", "path", [0.6, 0.7])
    keep_study(tmp_path, "count", "alibi", [0.5, 0.501])
    names = ["rope", "nope", "path", "alibi"]
    cells = {row.encoding: row.cells[6:] for row in atlas_rows(names, folder=tmp_path)}
    assert [cell.text for cell in cells["rope"]] == ["0.96<br>0.90–1.00", "—"]
    assert [cell.text for cell in cells["nope"]] == ["0.10<br>0.09–0.10", "—"]
    assert [cell.text for cell in cells["path"]] == ["—", "0.65‡<br>0.60–0.70"]
    assert [cells[name][0].good for name in names] == [True, False, None, None]
    assert [cells[name][1].good for name in names] == [None, None, True, False]  # midway is just above a half


def test_what_turned_out_otherwise_than_expected(tmp_path):
    titles = [column.title for column in COLUMNS if column.source == "measurement"]
    assert all(name in ENCODINGS and set(expected) <= set(titles) for name, expected in atlas.EXPECTED.items())
    keep(tmp_path, "grape-a", [[[1.0] * 3], [[1.0] * 3], [[1.0] * 3], [[0.2] * 3]])
    keep_study(tmp_path, "distance", "grape-a", [0.9])
    keep(tmp_path, "rollpe", [[[0.0] * 3]] * 4)  # nothing was said of it
    rows = atlas_rows(["rollpe", "grape-a", "tapa"], folder=tmp_path)
    assert atlas.unexpected(rows) == [("grape-a", "Index"), ("grape-a", "Ind.")]


def test_an_altered_result_is_an_error_and_not_a_dash(tmp_path):
    keep_study(tmp_path, "distance", "rope", [0.9])
    with (tmp_path / "encoding_study/distance_rope.npz").open("ab") as file:
        file.write(b"more")
    with pytest.raises(ResultError, match=r"distance_rope.npz was altered"):
        atlas_rows(["rope"], folder=tmp_path)


def test_levels_without_order():
    task = EncodingStudy(task="distance", setup="nope").make_task()
    assert atlas.level_without_order("distance") == task.best_without_order() > 1 / task.classes
    assert atlas.level_without_order("count") == 1 / 51


def test_a_column_more_is_a_cell_more():
    asked = []

    def read(name, folder):
        asked.append((name, folder))
        return TableCell(text="0.50", good=None)

    columns = (*COLUMNS[:1], Column(title="A", source="measurement", read=read))
    rows = atlas_rows(["path", "t5"], columns=columns, folder="here")
    assert asked == [("path", "here"), ("t5", "here")]
    assert write_atlas(rows, columns=columns)[1] == ["**PaTH**", "–", "0.50"]
    with pytest.raises(ValueError, match=r"one cell for each of 8 columns; got \{'path': 2, 't5': 2\}"):
        write_atlas(rows)
