"""What stands against a model, in the words of every refusal: its name, the reason, the way out."""

import re

import pytest
from architectures import build
from torch import nn

from posym_profile.interventions._plane_surgery import edit_rope
from posym_profile.language_models._refusals import (
    UnsupportedModelError,
    check_tokens,
)


def test_layers_that_share_an_attention_module_are_not_operated_on_apart():
    model = build("Llama")
    model.model.layers[1].self_attn = model.model.layers[0].self_attn
    expected = (
        "LlamaForCausalLM runs one attention module several times in a pass, so that its layers cannot be operated on "
        "apart; use a model whose layers have attention modules of their own"
    )
    with pytest.raises(UnsupportedModelError, match=f"^{re.escape(expected)}$"), edit_rope(model, length=24):
        pass


@pytest.mark.parametrize(("queries", "keys", "tokens"), [(4, 5, 5), (5, 4, 5), (5, 5, 4)])
def test_keys_stand_for_the_tokens_of_the_prompt(queries, keys, tokens):
    model = nn.Linear(1, 1)
    expected = f"Linear (Linear) has {queries} queries and {keys} keys in a pass over {tokens} tokens (keys are"
    with pytest.raises(
        UnsupportedModelError, match=f"^{re.escape(expected)}.*; use a model with plain rotary attention$"
    ):
        check_tokens(model, model, queries, keys, tokens)
    check_tokens(model, model, 5, 5, 5)
