"""Measurements for the claims of later papers, on tiny models with random weights."""

from __future__ import annotations

import copy
import functools
from dataclasses import replace

import numpy as np
import pytest
import torch
from architectures import build, tokens
from invented import save_invented

from posym_companion.head_measurements import block_tokens
from posym_companion.later import binding, influence, later_claims, later_subjects, order, retrieval
from posym_companion.later.binding import OUTCOMES
from posym_companion.later.judges import later_claims as judges
from posym_companion.later.later_claims import EXPERIMENT, full_size, measure
from posym_companion.later.later_subjects import LaterClaims
from posym_companion.ledger import ledger
from posym_companion.results import name_dims
from posym_companion.solvers import family_solvers
from posym_companion.solvers.families import FAMILIES
from posym_companion.solvers.family_solvers import FamilySolver
from posym_companion.theory._index_retrieval_limits import compute_positional_peak
from posym_core.metrics._exclusion_bound import exclusion
from posym_core.metrics._rope import rotate
from posym_core.tasks._facts import FactsTask
from posym_profile.capture._capturing import forward_with_hook
from posym_profile.interventions._plane_interventions import freeze_rotation
from posym_profile.interventions._plane_surgery import edit_rope
from posym_profile.language_models._loading import PACKAGED
from posym_profile.planes._rotary_planes import find_planes
from posym_profile.scores._layer_heads import LayerHeads, read_layer_heads


def heads_of(model, ids):
    seen = []
    forward_with_hook(model, ids, lambda call: seen.append(call))
    return [read_layer_heads(call, planes) for call, planes in zip(seen, find_planes(model, ids.shape[1]), strict=True)]


def decoder(family="llama"):
    """A small decoder before its training, and what it would be trained as."""
    solver = replace(family_solvers.small(FamilySolver(family=family)), facts=6)
    return family_solvers.make_untrained(solver).eval().requires_grad_(False), solver


@pytest.mark.parametrize("family", ["", *FAMILIES])
def test_every_part_is_measured_on_tiny_models(family, tiny, tokenizer, monkeypatch):
    monkeypatch.setattr(retrieval, "CARRIES", 0.0)  # a model that does not bind has no carriers
    qwen = functools.cache(influence.small_qwen)
    monkeypatch.setattr(influence, "small_qwen", lambda vocabulary, seed: qwen(vocabulary, 0))
    model, source = decoder(family) if family else (tiny, tokenizer)
    chosen = [x for x in full_size() if x.model == family or not (family or x.model in FAMILIES)]
    # What else settings differ in is the name of a model.
    different = {(x.part, x.trained, x.part == "influence" and x.fresh): x for x in chosen}
    for setting in map(EXPERIMENT.shrink, different.values()):
        arrays = measure(model, source, setting, progress=False)
        name_dims(later_claims.PARTS[setting.part].DIMS, arrays)
        numbers = {name: x for name, x in arrays.items() if x.dtype.kind == "f" and "rotated" not in name}
        for name, x in numbers.items():
            # Layers that see a few tokens only have no target that can be anywhere: two of three, and one of two.
            expected = {"": 2 / 3, "gemma2": 1 / 2}.get(family, 0) if name.endswith("_peak") else 0
            assert np.isnan(x).sum() == expected * x.size, name


@pytest.mark.parametrize("family", ["", "llama"])
def test_every_part_is_measured_on_another_device(family, tiny, tokenizer, monkeypatch, other_device):
    monkeypatch.setattr(retrieval, "CARRIES", 0.0)
    monkeypatch.setattr(order, "PLACES", 8)
    monkeypatch.setattr(influence, "small_qwen", lambda *_: tiny)  # it stays on the CPU
    model, source = decoder(family) if family else (copy.deepcopy(tiny), tokenizer)
    settings = {setting.part: setting for setting in full_size() if setting.model in (family or PACKAGED)}
    for setting in (replace(EXPERIMENT.shrink(x), prompts=2) for x in settings.values()):
        name_dims(
            later_claims.PARTS[setting.part].DIMS, measure(model.to(other_device), source, setting, progress=False)
        )


def test_a_decoder_is_loaded_trained_and_a_language_model_with_its_tokenizer(monkeypatch):
    monkeypatch.setattr(later_subjects, "FamilySolver", lambda **options: family_solvers.small(FamilySolver(**options)))
    monkeypatch.setattr(later_subjects, "load_experiment_model", lambda name, **options: (name, options["device"]))
    model, solver = later_subjects.load_subject("qwen2", device="cpu")
    assert (solver.family, solver.seed) == ("qwen2", later_subjects.SOLVER_SEED)
    assert not model.training
    before = family_solvers.make_untrained(solver).get_input_embeddings().weight
    assert not torch.equal(model.get_input_embeddings().weight, before)
    assert later_subjects.load_subject(later_subjects.TAUGHT, device="cpu") == (later_subjects.TAUGHT, "cpu")


def test_prompts_of_a_decoder_name_different_attributes():
    task = FactsTask(facts=5)
    prompts = later_subjects.facts_prompts(task, 40, 3)
    facts = prompts.input_ids[:, block_tokens(prompts)].unflatten(1, (5, 2))
    assert torch.equal(facts[..., 1], prompts.answer_ids)
    assert all(len(set(row)) == 5 for row in prompts.answer_ids.tolist())
    assert int(prompts.answer_ids.min()) >= task.first_attribute
    assert int(prompts.answer_ids.max()) < task.first_ordinal
    asked = facts[torch.arange(40), prompts.target, 0]
    assert torch.equal(asked, prompts.input_ids[:, -1])
    assert len(set(prompts.target.tolist())) == 5


def test_layers_see_their_window_or_the_context():
    model, solver = decoder("gemma2")
    assert later_subjects.visible_tokens(model).tolist() == [solver.window, model.config.max_position_embeddings]
    model, _ = decoder("llama")
    assert later_subjects.visible_tokens(model).tolist() == [model.config.max_position_embeddings] * 2


def test_peaks_of_one_plane_are_those_of_theorem_7():
    """All keys alike, in one plane: the head of the theorem; a soft-cap acts on its logits."""
    length, angle, beta = 24, 0.11, 3.0
    places = torch.arange(length + 1, dtype=torch.float64)
    angles = torch.tensor([angle], dtype=torch.float64)
    keys = rotate(torch.tensor([2.0, 0.0], dtype=torch.float64).expand(1, 1, 1, length + 1, 2), places, angles)
    heads = LayerHeads(
        layer=0,
        prompts=slice(0, 1),
        query=torch.tensor([[[[0.0, 3.0]]]], dtype=torch.float64),
        keys=keys,
        angles=angles,
        scale=beta / 6,
        visible=torch.ones(1, 1, 1, length + 1, dtype=torch.bool),
        softcap=None,
        sinks=None,
    )
    inside = slice(0, length)
    found = influence.target_peaks(heads, inside)[0, 0, 0]
    torch.testing.assert_close(found.exp(), compute_positional_peak(length, angle, beta))
    flat = influence.target_peaks(replace(heads, angles=0 * angles, keys=keys[..., :1, :].expand_as(keys)), inside)
    torch.testing.assert_close(flat.exp(), torch.full_like(flat, 1 / length))
    capped = influence.target_peaks(replace(heads, softcap=1e-3), inside)[0, 0, 0]
    torch.testing.assert_close(capped.exp(), torch.full_like(capped, 1 / length), rtol=1e-2, atol=0)
    near = heads.visible.clone()
    near[..., 0] = False
    assert influence.target_peaks(replace(heads, visible=near), inside).isnan().all()


def test_no_end_has_more_than_twice_the_weight_of_another_place():
    model, ids = build("Gemma3"), tokens(2)
    for heads in heads_of(model, ids):
        sharp = replace(heads, query=20 * heads.query, visible=torch.ones_like(heads.visible))
        peak = influence.target_peaks(sharp, slice(0, heads.keys.shape[-2] - 1))
        assert bool((peak[..., :1] - peak < np.log(2) + 1e-9).all())
        assert float((peak[..., :1] - peak).max()) > 0.05


def test_logits_at_distances_are_the_cross_logits_of_places():
    model, ids = build("Gemma3"), tokens(2)
    for heads in heads_of(model, ids):
        last = heads.keys.shape[-2] - 1
        inside = slice(3, last)
        distance = torch.arange(last - 3, 0, -1).double()
        found = order.logits_at(heads, inside, distance, heads.angles)
        torch.testing.assert_close(found, heads.cross_logits()[..., 3:last, 3:last], rtol=1e-4, atol=1e-5)
        still = order.logits_at(heads, inside, distance, 0 * heads.angles)
        torch.testing.assert_close(still, still[..., :1].expand_as(still), rtol=1e-4, atol=1e-5)


def test_content_explains_what_the_symbolic_share_says():
    C = torch.randn(3, 6, 6, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(order.measure_content_share(C), exclusion(C).symbolic_share.double())
    assert float(order.measure_content_share(torch.arange(4.0)[:, None].expand(4, 9))) == pytest.approx(1)


def test_distances_are_all_or_a_sample_within_the_length():
    assert order.distances(64, 0).tolist() == list(range(1, 65))
    far = order.distances(32768, 0)
    assert len(far.unique()) == order.PLACES
    assert far.min() >= 1
    assert 30000 < far.max() <= 32768
    assert bool((far.diff() > 0).all())


def test_squares_of_planes_add_up():
    x = torch.randn(5, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    planes = later_subjects.plane_squares(x)
    torch.testing.assert_close(planes.sum(-1), x.square().sum(-1))
    assert float(planes[0, 1]) == pytest.approx(float(x[0, 1] ** 2 + x[0, 5] ** 2))


def test_influence_is_the_norm_of_the_jacobian():
    model, ids = build("Qwen2"), tokens(1)[:, :10]
    embedding = model.get_input_embeddings()
    width = embedding.weight.shape[1]

    def state(x):
        return model.base_model(inputs_embeds=x, use_cache=False).last_hidden_state[0, -1]

    jacobian = torch.autograd.functional.jacobian(state, embedding(ids).detach())[:, 0]
    found = influence.influence(model, ids, torch.eye(width))
    torch.testing.assert_close(found[0], jacobian.square().sum((0, 2)).sqrt(), rtol=1e-4, atol=1e-6)
    # Directions that are drawn give the same on average, and a token behind the last has no say.
    drawn = influence.influence(model, ids, torch.randn(400, width, generator=torch.Generator().manual_seed(0)))
    torch.testing.assert_close(drawn / 20, found, rtol=0.1, atol=1e-6)


def test_influence_under_uniform_attention_is_that_of_running_means():
    """Values and outputs alone: the state is a product of (1 + running mean), as the paper has it."""
    model, ids = build("Llama"), tokens(1)[:, :12]
    with torch.no_grad():
        for layer in model.base_model.layers:
            layer.self_attn.q_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
    found = influence.influence(model, ids, torch.eye(model.get_input_embeddings().weight.shape[1]))[0]
    with edit_rope(model, freeze_rotation(), length=12):
        still = influence.influence(model, ids, torch.eye(model.get_input_embeddings().weight.shape[1]))[0]
    torch.testing.assert_close(found, still, rtol=1e-4, atol=1e-6)
    # The first tokens are in every mean, and the last alone is handed on as it is.
    assert found[0] > 2 * found[5]
    assert found[5] > found[10]
    assert found[11] > found[10]
    with torch.no_grad():
        for layer in model.base_model.layers:
            layer.self_attn.o_proj.weight.zero_()
    alone = influence.influence(model, ids, torch.eye(model.get_input_embeddings().weight.shape[1]))[0]
    assert alone[-1] > 0
    assert float(alone[:-1].max()) == 0


def test_rearranged_prompts_point_three_ways(tokenizer):
    setting = LaterClaims(part="binding", length=6, prompts=6)
    for clean, others, answers, place in binding.rearrange_prompts(tokenizer, setting):
        assert sorted(clean.tolist()) != sorted(others[1].tolist())
        blocks, other, absent = (x[1:][:24].view(6, 4) for x in (clean, *others))
        asked_name, new_name = clean[-2], others[0][-2]
        assert int((blocks[:, 0] == asked_name).nonzero()) == int((blocks[:, 2] == answers[0]).nonzero())
        assert int((other[:, 0] == new_name).nonzero()) == place
        assert blocks[place, 2] == answers[1]
        assert blocks[int((blocks[:, 0] == new_name).nonzero()), 2] == answers[2]
        assert other[place, 2] == answers[3]
        assert len(set(answers.tolist())) == 7
        assert absent[place, 2] == answers[-1]
        assert answers[-1] not in clean
        assert (others[0] != others[1]).sum() == 1
        assert sorted(other[:, 0].tolist()) == sorted(blocks[:, 0].tolist())


def test_a_patched_state_is_that_of_the_model_with_a_hook_and_no_cache(tiny, tokenizer):
    setting = LaterClaims(part="binding", length=4, prompts=3)
    clean, others, *_ = next(binding.rearrange_prompts(tokenizer, setting))
    with pytest.raises(ValueError, match="four different facts or more and an attribute"):
        next(binding.rearrange_prompts(tokenizer, replace(setting, prompts=1)))
    states = binding.last_states(tiny, others[0])
    found = binding.with_last_state(tiny, clean, states)
    layers = tiny.base_model.layers
    for number, layer in enumerate(layers):

        def change(module, args, output, number=number):
            hidden = (output[0] if isinstance(output, tuple) else output).clone()
            hidden[0, -1] = states[number]
            return (hidden, *output[1:]) if isinstance(output, tuple) else hidden

        handle = layer.register_forward_hook(change)
        with torch.no_grad():
            expected = tiny(clean[None], use_cache=False).logits[0, -1]
        handle.remove()
        torch.testing.assert_close(found[number], expected, rtol=1e-3, atol=1e-4)
    with torch.no_grad():
        whole = tiny(others[0][None], use_cache=False).logits[0, -1]
        intact = tiny(clean[None], use_cache=False).logits[0, -1]
    torch.testing.assert_close(found[-1], whole, rtol=1e-3, atol=1e-4)
    own = binding.with_last_state(tiny, clean, binding.last_states(tiny, clean))
    torch.testing.assert_close(own, intact.expand_as(own), rtol=1e-3, atol=1e-4)


def test_outcomes_count_the_highest_answer():
    logits = torch.eye(8)[None]  # one control, eight layers, each saying another answer
    said = binding.count_outcomes(logits)
    assert said.shape == (1, 8, len(OUTCOMES))
    np.testing.assert_allclose(said[0, :4, :4], np.eye(4))
    np.testing.assert_allclose(said[0, 4:7, 4], 1 / 3)
    assert said[0, 7, 5] == 1


def test_operations_are_on_heads_that_carry_the_answer_and_as_many_others():
    restored = np.zeros((3, 4))
    restored[1, 2] = restored[2, 0] = 0.5
    energy = torch.rand(3, 4, 16, generator=torch.Generator().manual_seed(0))
    planned = retrieval.list_operations(restored, energy, 2, torch.Generator().manual_seed(0))
    assert planned["none"] == ()
    for name, interventions in planned.items():
        for one in interventions:
            carriers = set(one.heads) == {(1, 2), (2, 0)}
            if "of equal energy" in name:  # of each head planes of its own
                assert len(one.heads) == 1
                continue
            assert carriers != name.startswith("other heads")
            assert len(one.heads) == 2
    for speed in ("slow", "faster"):
        heads = [head for one in planned[f"{speed} planes of equal energy, 1"] for head in one.heads]
        assert heads == [(1, 2), (2, 0)]
    assert int((~planned["slowest 0.25"][0].change(torch.linspace(1, 0.1, 16))[1]).sum()) == 4
    with pytest.raises(ValueError, match=r"no head restores more than 0\.1"):
        retrieval.list_operations(restored * 0, energy, 1, torch.Generator())


@pytest.mark.parametrize("slowest", [0.9, 0.1])
def test_planes_of_equal_energy_are_all_of_the_poorer_side_and_as_much_of_the_richer(slowest):
    """Slow planes are 13 to 16; whichever side has more energy gives a part of it, another in each draw."""
    generator = torch.Generator().manual_seed(0)
    energy = torch.rand(16, generator=generator)
    energy[12:] *= slowest / energy[12:].sum()
    energy[:12] *= (1 - slowest) / energy[:12].sum()
    drawn = set()
    for _ in range(20):
        slow, faster = retrieval.equal_energy(energy, 0.25, generator)
        assert set(slow) <= {13, 14, 15, 16}
        assert set(faster) <= set(range(1, 13))
        whole, part = (faster, slow) if slowest > 0.5 else (slow, faster)
        assert whole == (list(range(1, 13)) if slowest > 0.5 else [13, 14, 15, 16])
        sums = [float(energy[[plane - 1 for plane in side]].sum()) for side in (whole, part)]
        assert sums[1] <= sums[0] + 1e-6
        drawn.add(tuple(part))
    if slowest < 0.5:  # of many small planes the sums are near
        assert sums[1] > 0.5 * sums[0]
        assert len(drawn) > 5


def test_energies_of_planes_are_kept_beside_what_is_done_to_them(tiny, tokenizer):
    setting = EXPERIMENT.shrink(LaterClaims(part="retrieval", draws=2))
    found = later_claims.measure(tiny, tokenizer, setting)
    name_dims(retrieval.DIMS, found)
    layers, heads = found["restored"].shape
    assert found["energy"].shape[:2] == (layers, heads)
    np.testing.assert_allclose(found["energy"].sum(-1), 1, rtol=1e-3)
    assert "faster planes of equal energy, 0" in found["conditions"].tolist()


def test_correlation_with_the_best_sum_is_that_of_least_squares():
    C = torch.randn(5, 1, 1, 7, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    C = C + 2 * torch.arange(7.0)[:, None]
    shares = exclusion(C).interaction_share
    expected = []
    for one in C[:, 0, 0].numpy():
        best = one.mean(1, keepdims=True) + one.mean(0, keepdims=True) - one.mean()
        expected.append(np.corrcoef(one.ravel(), best.ravel())[0, 1])
    assert float(judges.sum_correlation(shares.numpy())[0, 0]) == pytest.approx(np.mean(expected))


def test_ends_of_a_profile():
    profile = np.exp(np.r_[[2.0] * 2, [0.0] * 12, [1.0, 5.0]])
    ends = judges.influence_ends(profile[None])
    assert (float(ends.start[0]), float(ends.end[0]), float(ends.last[0])) == pytest.approx((2, 1, 5))
    with pytest.raises(ValueError, match="so 16 in all; got 15"):
        judges.influence_ends(profile[None, :15])


def test_parts_are_named():
    with pytest.raises(ValueError, match="part must be one of"):
        judges.load_part("none")


def test_a_rule_is_put_to_every_model_that_was_run(tmp_path):
    """The verdict is that of the first model; another's stands in the row beside its numbers."""

    def save(name, interaction, model):
        save_invented(
            f"later_claims/{name}", {"interaction_share": np.full((4, 2, 3), interaction)}, tmp_path, model=model
        )

    save("sums", 0.01, PACKAGED)
    save("sums_untrained", 0.5, PACKAGED)
    (alone,) = ledger("L-2", folder=tmp_path)
    assert {one.verdict for one in alone.others} == {"not run here"}
    save("sums_gemma-3-270m-binds", 0.01, later_subjects.TAUGHT)
    save("sums_llama", 0.6, "llama")
    save("sums_llama_untrained", 0.7, "llama")
    (row,) = ledger("L-2", folder=tmp_path)
    assert row.verdict == alone.verdict == "reproduced in kind"
    taught, llama, *_ = row.others
    assert (str(taught), str(llama)) == (
        "gemma-3-270m, taught to bind: *reproduced in kind*",
        "small Llama: *not reproduced*",
    )
    assert llama.parts == {"logits are nearly a sum": "no", "more so than with random weights": "yes"}
    assert llama.ours["mean correlation"]["value"] == pytest.approx(0.4**0.5, abs=1e-3)
    assert "later_claims/sums_llama_untrained" in row.evidence


def test_two_sources_of_the_u(tmp_path):
    """A U in the influence without angles, and one in the weights of two thirds of the trained heads, and no random."""
    place = np.linspace(-1, 1, 32)
    profile = np.exp(2 * place**2)
    flat, bent = np.zeros((2, 30, 32)), np.tile(0.3 * place**2 * (np.arange(30) % 3 > 0)[:, None], (5, 2, 1, 1))
    arrays = {
        "kinds": np.array(["own"]),
        "rotated": np.tile(profile, (1, 2, 1)),
        "unrotated": np.tile(profile, (1, 2, 1)),
        "trained": np.tile(profile, (5, 1)),
        "fresh_peak": np.stack([flat, flat]),
        "trained_peak": bent,
    }
    save_invented("later_claims/influence", arrays, tmp_path / "bent", model=PACKAGED)
    (row,) = ledger("L-4b", folder=tmp_path / "bent")
    assert row.verdict == "reproduced in kind"
    assert 0.1 < row.ours["height of that U"]["value"] < 0.3
    arrays["trained_peak"] = -bent
    save_invented("later_claims/influence", arrays, tmp_path / "other", model=PACKAGED)
    (row,) = ledger("L-4b", folder=tmp_path / "other")
    assert row.verdict == "partly"
    assert row.parts["Theorem 7 bends trained heads"] == row.parts["more than before training"] == "no"
    arrays |= {"trained_peak": bent, "unrotated": np.tile(np.where(place < 1, np.exp(-place), 9.0), (1, 2, 1))}
    save_invented("later_claims/influence", arrays, tmp_path / "spike", model=PACKAGED)
    (row,) = ledger("L-4b", folder=tmp_path / "spike")
    assert (row.verdict, row.first_rule_verdict) == ("partly", "reproduced in kind")
    assert row.parts["the end, without the last token, is above the middle, without angles"] == "0 of 2 models"
