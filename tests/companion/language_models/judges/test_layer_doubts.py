"""What scores and their trend over layers hang on: medians that are known, and both sides of each line of U25-12."""

from __future__ import annotations

import copy
from dataclasses import asdict

import numpy as np
import pytest
from invented import save_invented

from posym_companion.language_models import score_robustness
from posym_companion.language_models.judges import layer_doubts
from posym_companion.language_models.judges.layer_doubts import kept_order, moved, thirds_by_doubt
from posym_companion.language_models.layer_doubts import DIMS, EXPERIMENT, KINDS, LayerDoubts, measure
from posym_companion.language_models.random_weights import DRAWS, RandomWeights
from posym_companion.language_models.random_weights import full_size as all_weights
from posym_companion.ledger import ledger
from posym_companion.results import MissingResultError, name_dims
from posym_profile import binding_prompts, profile

LAYERS, HEADS = 6, 5


def heads(*thirds):
    """The same for all prompts and heads, by thirds of the layers."""
    return np.broadcast_to(np.repeat(thirds, LAYERS // 3)[None, :, None], (3, LAYERS, HEADS)).copy()


@pytest.fixture
def folder(tmp_path):
    mass = np.stack([heads(0.05, 0.5, 0.8)] * 3)
    positional = np.stack(
        [np.stack([heads(0.5, 0.6, 0.7) + 0.1 * kind, heads(0.4, 0.5, 0.6) + 0.1 * kind]) for kind in range(3)]
    )
    # One head of the second third attends to the facts, unlike the others, and scores otherwise.
    mass[:, :, 2:4, 1:], positional[:, :, :, 2:4, 0] = 0.01, 0.9
    arrays = {"positional": positional, "symbolic": 1 - positional, "mass": mass}
    save_invented(LayerDoubts().name, arrays, tmp_path)
    for draw in DRAWS:
        both = np.stack([heads(0.1, 0.2, 0.3), heads(0.4, 0.5, 0.6)])
        save_invented(RandomWeights(draw=draw).name, {"positional": both, "symbolic": 1 - both}, tmp_path)
    return tmp_path


def test_every_doubt_has_its_own_medians(folder):
    found = thirds_by_doubt(folder=folder)
    np.testing.assert_allclose(found["attention"]["attention"], [0.05, 0.01, 0.8])
    np.testing.assert_allclose(found["as they come"]["s_POS"], [0.5, 0.6, 0.7])
    np.testing.assert_allclose(found["without the mark of beginning"]["s_SYM"], [0.4, 0.3, 0.2])
    np.testing.assert_allclose(found["behind 8 facts of the same frame"]["s_POS"], [0.7, 0.8, 0.9])
    np.testing.assert_allclose(found["all pairs of facts weighed alike"]["s_POS"], [0.4, 0.5, 0.6])
    np.testing.assert_allclose(found["random weights, draw 3"]["s_POS"], [0.1, 0.2, 0.3])
    attend = found["heads with a tenth of their attention on facts"]["s_POS"]
    np.testing.assert_allclose(attend, [np.nan, 0.9, 0.7])


def test_a_model_that_was_not_measured_has_none(folder):
    with pytest.raises(MissingResultError, match="smollm2"):
        thirds_by_doubt("smollm2-135m", folder=folder)


@pytest.mark.filterwarnings("ignore::posym_profile.scores._visibility.HiddenBlocksWarning")  # the tiny model's windows
def test_scores_are_those_of_profile_and_mass_is_the_attention_to_facts(tiny, tokenizer):
    setting = EXPERIMENT.shrink(LayerDoubts())
    found = measure(tiny, tokenizer, setting, progress=False)
    name_dims(DIMS, found)
    for place, said in enumerate(({}, None, {"lead": 8})):
        if said is not None:
            prompts = binding_prompts(tokenizer, facts=setting.facts, count=setting.prompts, **said)
            for weighting, tau in enumerate((1e-4, 1e9)):
                scores = profile(tiny, prompts.input_ids, **prompts.layout, tau=tau, visible_only=False)
                np.testing.assert_allclose(found["symbolic"][place, weighting], scores.symbolic, atol=2e-3)
    prompts = binding_prompts(tokenizer, facts=setting.facts, count=setting.prompts)
    eager = copy.deepcopy(tiny)
    eager.set_attn_implementation("eager")
    attention = eager(prompts.input_ids, output_attentions=True).attentions[0][:, :, -1]
    facts = slice(prompts.start, prompts.start + prompts.blocks * prompts.block_length)
    np.testing.assert_allclose(found["mass"][0, :, 0], attention[..., facts].sum(-1).detach(), atol=2e-3)
    assert found["kinds"].tolist() == list(KINDS)


# Of 30 heads who leans how, from positions to symbols; and the same in reverse for half of them.
LEAN = np.linspace(0.2, 0.8, LAYERS * HEADS)[np.random.default_rng(0).permutation(LAYERS * HEADS)].reshape(
    LAYERS, HEADS
)
TURNED = np.where(LEAN > 0.5, 1.3 - LEAN, 0.7 - LEAN)


def scores(up=0.0, lean=LEAN):
    """Both scores ``[score, layer, head]``, each so much higher than before."""
    return np.stack([1 - lean, lean]) + up


def choices(folder, **changed):
    """U25-12 where every choice moves heads by 0.2 and keeps no order, but for what is changed; ``born`` of draws."""
    said = {name: {"up": 0.2, "lean": TURNED} for name in ("temperature", "number", "length", "alike")}
    said |= {"born": {"up": 0.1}, "prompts": {}, **changed}
    grid = np.broadcast_to(scores(**said["temperature"]), (3, 7, 4, 2, LAYERS, HEADS)).copy()
    cut = np.broadcast_to(scores(**said["length"]), (3, 9, 2, LAYERS, HEADS)).copy()
    grid[:, score_robustness.TAUS.index(1e-4)], cut[:, 0] = scores(), scores()
    chosen = score_robustness.full_size()[0]
    save_invented(chosen.name, {"grid": grid, "cut": cut}, folder, **asdict(chosen))
    for setting in (one for one in all_weights() if not one.lead and not one.varied):
        drawn, base = setting.weights == "random", scores()
        many = said["born" if drawn else "number"] if setting.facts == 64 else {}
        tau = {"papers": scores(**many), "alike": scores(**many) + said["born" if drawn else "alike"]["up"]}
        prompts = np.stack([base * 0, scores(**said["prompts"]) - base] * 2)
        found = np.stack([prompts + each for each in tau.values()], 1)
        arrays = {name: found[:, :, place].swapaxes(0, 1) for place, name in enumerate(("positional", "symbolic"))}
        save_invented(setting.name, arrays, folder, **asdict(setting))
    return ledger("U25-12", folder=folder)[0]


@pytest.fixture
def _few_draws(monkeypatch):
    monkeypatch.setattr(layer_doubts, "RESAMPLES", 40)


@pytest.mark.usefixtures("_few_draws")
def test_choices_that_move_heads_and_their_order(tmp_path):
    row = choices(tmp_path)
    assert (row.verdict_of_model, row.fails_in) == ("reproduced in kind", [])
    assert row.parts["heads move with the length of blocks"] == "9 of 9 wordings and lengths"
    assert row.ours["move with another number of blocks (likes)"]["value"] == pytest.approx(
        np.abs(scores() - scores(0.2, TURNED)).mean(), abs=1e-4
    )


@pytest.mark.usefixtures("_few_draws")
@pytest.mark.parametrize("choice", ["temperature", "number", "length"])
def test_a_move_that_leaves_the_order_alone_is_asked_by_itself(tmp_path, choice):
    row = choices(tmp_path, **{choice: {"up": 0.2}}, prompts={"up": 0.2})
    called = {"temperature": "temperature", "number": "number of blocks", "length": "length of blocks"}
    for one, name in called.items():
        assert not row.parts[f"heads move with the {name}"].startswith("0 of")
        assert row.parts[f"their order changes with the {name}"].startswith("0 of") == (one == choice)
    assert row.parts["other prompts of the same kind do neither"] == "0 of 4 kinds of prompt"


@pytest.mark.usefixtures("_few_draws")
@pytest.mark.parametrize(
    ("changed", "halves", "born"),
    [({"prompts": {"lean": TURNED}}, 0, 6), ({"born": {"up": 0.3}}, 4, 0), ({"alike": {"up": 0.05}}, 4, 2)],
)
def test_other_prompts_and_random_weights_are_controls(tmp_path, changed, halves, born):
    row = choices(tmp_path, **changed)
    assert row.parts["other prompts of the same kind do neither"] == f"{halves} of 4 kinds of prompt"
    assert row.parts["they move more than with random weights"] == f"{born} of 6 kinds of prompt and choices"
    assert len(row.fails_in) == 4 - halves + 6 - born


def test_an_order_is_that_of_what_heads_lean_to():
    order = kept_order(scores(), scores(0.3))
    assert (order.value, order.low) == (1, 1)
    assert kept_order(scores(), scores(0.0, 1 - LEAN)).value == -1
    assert moved(scores(), scores(-0.3)).value == pytest.approx(0.3)
