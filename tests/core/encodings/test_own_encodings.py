"""Encodings of one's own: a file or an entry point, found by name, in tables and experiments; what is refused."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

import pytest
import torch
from own_packages import as_before, example, write_package

import posym_core.encodings
from posym_companion.encodings import LEVELS, ability_table, atlas_rows, playground, write_atlas
from posym_companion.encodings.encoding_study import EncodingStudy
from posym_companion.encodings.encoding_study import full_size as studies
from posym_companion.encodings.encoding_tasks import EncodingTasks
from posym_companion.encodings.encoding_tasks import full_size as tasks
from posym_core.encodings import (
    ENCODINGS,
    LABELS,
    Biased,
    Encoding,
    EncodingEntry,
    LayerShape,
    NoPE,
    RoPE,
    make_encoding,
    register_encoding,
)
from posym_core.extensions import ExtensionError, ExtensionWarning
from posym_profile.prompts import PROMPT_TASKS

OURS = {
    "nope": "NoPE",
    "sinusoidal": "sinusoidal",
    "learned": "learned",
    "t5": "T5 bias",
    "alibi": "ALiBi",
    "dape": "DAPE",
    "rope": "RoPE",
    "rope-500k": "RoPE 500k",
    "p-rope": "p-RoPE",
    "partial-rope": "partial RoPE",
    "mla": "MLA",
    "rollpe": "RollPE",
    "pope": "PoPE",
    "grape-m": "GRAPE-M",
    "grape-a": "GRAPE-A",
    "tapa": "TAPA",
    "carope": "CARoPE",
    "carope-own": "CARoPE own",
    "selective-rope": "Selective RoPE",
    "path": "PaTH",
    "urpe": "URPE",
}
GROUP = "posym_core.encodings"
PLAIN = "from posym_core.encodings import NoPE\nclass Window(NoPE): ...\n"
SHAPE = LayerShape(heads=2, dim=8, width=6, length=16)


@pytest.fixture
def patch(tmp_path) -> Iterator[pytest.MonkeyPatch]:
    with as_before(ENCODINGS, tmp_path) as patch:
        yield patch


def test_ours_stand_in_the_order_of_the_tables():
    assert list(LABELS.items()) == list(OURS.items())
    assert list(ENCODINGS) == ENCODINGS.names() == list(OURS)
    assert len(LABELS) == len(ENCODINGS) == len(OURS)
    assert [name for name, entry in ENCODINGS.items() if entry.bounded] == ["learned", "urpe"]
    assert ENCODINGS["rope"].make is RoPE


def test_the_example_is_found_by_adding_one_file(patch, tmp_path):
    """Atlas, questions, playground and experiments know it, and nothing else was edited."""
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "window.py").write_text(example("An encoding"), encoding="utf-8")
    patch.setattr(posym_core.encodings, "__path__", [*posym_core.encodings.__path__, str(tmp_path / "room")])
    ENCODINGS._imported = False
    assert list(LABELS) == [*OURS, "window"]
    made = make_encoding("window", SHAPE, depth=3.0)
    far, near = made.cross_logits(torch.zeros(2, 8), torch.zeros(2, 8, 8)).aminmax()
    assert (float(far), float(near)) == (-3, 0)
    (row,) = atlas_rows(["window"], folder=tmp_path)
    assert [cell.text for cell in row.cells] == ["–"] * 3 + ["—"] * 5
    assert write_atlas([row])[1][:2] == ["**Window**", "–\u00a0·\u00a0–\u00a0·\u00a0–"]
    assert {answer.reason for answer in ability_table(["window"])} == {"nobody has proved yet what its heads can be"}
    assert playground("window", 0.5).C.shape[0] == LEVELS
    assert [setting.encoding for setting in tasks()][-1] == "window"
    assert {setting.task for setting in studies() if setting.setup == "window"} == {"distance", "count"}
    assert EncodingTasks(encoding="window").name == "encoding_tasks/window"
    model = EncodingStudy(task="count", setup="window", seeds=(0,), steps=2, test=4, ablated=4, pointed=2)
    assert model.setup == "window"


def test_after_it_is_removed_it_is_unknown():
    assert "window" not in ENCODINGS
    assert list(LABELS) == list(OURS)
    message = r"encoding must be one of 'nope', .*'urpe', or module:name for one of your own; got 'window'"
    with pytest.raises(ValueError, match=message):
        make_encoding("window", SHAPE)
    with pytest.raises(ValueError, match=r"setup must be one of .*; got 'window'"):
        EncodingStudy(task="count", setup="window")


def test_a_package_names_an_encoding_by_an_entry_point(patch, tmp_path):
    write_package(tmp_path / "a", "window-pack", GROUP, {"window": "window_pack:Window"}, window_pack=PLAIN)
    patch.syspath_prepend(tmp_path / "a")
    assert "window" in ENCODINGS
    assert "window_pack" not in sys.modules
    assert isinstance(make_encoding("window", SHAPE), NoPE)
    assert list(LABELS.items())[-1] == ("window", "window")
    assert [row.encoding for row in atlas_rows(folder=tmp_path, columns=())] == [*OURS, "window"]


def test_a_decorated_class_keeps_its_label(patch, tmp_path):
    code = "from posym_core.encodings import register_encoding\n" + PLAIN.replace(
        "class", "@register_encoding('window', 'A window')\nclass"
    )
    write_package(tmp_path / "a", "window-pack", GROUP, {"window": "window_pack:Window"}, window_pack=code)
    patch.syspath_prepend(tmp_path / "a")
    assert LABELS["window"] == "A window"


def test_a_class_in_no_package_goes_by_module_and_name(patch, tmp_path):
    (tmp_path / "mine.py").write_text(PLAIN, encoding="utf-8")
    patch.syspath_prepend(tmp_path)
    assert type(make_encoding("mine:Window", SHAPE)).__module__ == "mine"
    assert list(ENCODINGS) == list(OURS)


def test_a_broken_package_is_named_and_breaks_no_other(patch, tmp_path):
    write_package(tmp_path / "a", "bad-pack", GROUP, {"window": "bad_pack:Window"}, bad_pack="raise RuntimeError('no')")
    patch.syspath_prepend(tmp_path / "a")
    message = r"encoding 'window', entry point 'bad_pack:Window' of bad-pack 1.0, cannot be loaded: RuntimeError: no\."
    with pytest.raises(ExtensionError, match=message):
        make_encoding("window", SHAPE)
    with pytest.warns(ExtensionWarning, match=message):
        assert list(LABELS) == list(OURS)
    assert isinstance(make_encoding("rope", SHAPE), RoPE)


def test_two_of_one_name_are_refused():
    with pytest.raises(ExtensionError, match=r"'rope' is posym_core.encodings._rotary:RoPE already, and .*Other asks"):

        @register_encoding("rope", "Other")
        class Other(NoPE): ...

    assert ENCODINGS["rope"].make is RoPE


class WithoutBias(Biased):
    pass


class WithoutC(Encoding):
    pass


class Needy(NoPE):
    def __init__(self, shape, base):
        super().__init__(shape)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (3, "encoding 'own' must be a class of posym_core.encodings.Encoding; got 3"),
        (torch.nn.Linear, "got <class 'torch.nn.modules.linear.Linear'>"),
        (lambda shape: NoPE(shape), "must be a class"),
        (WithoutBias, "encoding 'own' must define bias, which WithoutBias does not$"),
        (WithoutC, "must define _cross_logits, which WithoutC does not; or require_cross_logits, which says why"),
        (
            Needy,
            r"encoding 'own' is made for a LayerShape alone, but Needy takes \(shape, base\): missing .*'base'; give",
        ),
    ],
)
def test_what_is_no_encoding_is_refused_when_it_registers(given, message, patch):
    """Not when it is used, hours into an experiment."""
    with pytest.raises(ExtensionError, match=message):
        ENCODINGS.register("own", given)
    assert "own" not in ENCODINGS


@pytest.mark.parametrize(
    ("registry", "decorator"),
    [(ENCODINGS, "@register_encoding(name, label)"), (PROMPT_TASKS, "@register_prompt_task(name)")],
)
def test_a_registry_is_written_by_its_decorator_alone(registry, decorator):
    names = registry.names()
    with pytest.raises(TypeError, match=rf"'own' cannot be assigned, .*; register it with {re.escape(decorator)}$"):
        registry["own"] = NoPE
    with pytest.raises((TypeError, AttributeError)):
        del registry[names[0]]
    assert registry.names() == names


class OneHead(NoPE):
    def _logits(self, query, key, positions, content):
        return self.content_logits(query, key)[:1]


class InSingle(NoPE):
    def _logits(self, query, key, positions, content):
        return self.content_logits(query, key).float()


class OtherC(NoPE):
    def _cross_logits(self, query, keys, position, positions, content, key_map):
        return super()._cross_logits(query, keys, position, positions, content, key_map) + positions


class TransposedC(NoPE):
    def _cross_logits(self, query, keys, position, positions, content, key_map):
        return super()._cross_logits(query, keys, position, positions, content, key_map).mT


class ShortC(NoPE):
    def _cross_logits(self, query, keys, position, positions, content, key_map):
        return super()._cross_logits(query, keys, position, positions, content, key_map)[..., 1:]


class OddWeights(NoPE):
    def attention(self, logits, *, positions=None):
        return logits.softmax(-1)[..., :-1]


class NotANumber(NoPE):
    def _cross_logits(self, query, keys, position, positions, content, key_map):
        return super()._cross_logits(query, keys, position, positions, content, key_map) * torch.nan


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (OneHead, r"logits of .*OneHead must have shape \[2, 5, 5\] .*; got \[1, 5, 5\] of torch.float64"),
        (InSingle, r"its queries' type of number for 2 heads and 5 tokens; got \[2, 5, 5\] of torch.float32"),
        (OddWeights, r"attention of .*OddWeights must have shape \[2, 5, 5\] .*; got \[2, 5, 4\]"),
        (ShortC, r"cross_logits of .*ShortC must have shape \[2, 4, 4\] .*; got \[2, 4, 3\]"),
        (OtherC, r"C\[a, b\] of .*OtherC must be the logit that content a has .* differs by up to 3.0e\+00; mend its"),
        (TransposedC, "C.a, b. of .*TransposedC must be the logit"),
        (NotANumber, "C.a, b. of .*NotANumber .* differs by up to nan"),
    ],
)
def test_logits_and_cross_logits_are_compared_on_one_small_input(made, message, patch):
    ENCODINGS.register("own", made)
    with pytest.raises(ExtensionError, match=message):
        make_encoding("own", SHAPE)


def test_what_does_not_fit_the_small_input_is_left_to_its_layer(patch):
    class Wide(NoPE):
        def __init__(self, shape):
            if shape.dim < 64:
                raise ValueError("dim must be at least 64")
            super().__init__(shape)

    ENCODINGS.register("own", Wide)
    assert make_encoding("own", LayerShape(heads=1, dim=64)).shape.dim == 64
    with pytest.raises(ValueError, match="dim must be at least 64"):
        make_encoding("own", SHAPE)


def test_trying_an_encoding_out_draws_nothing(patch):
    """What is drawn after it is the same as without it, and its parameters are those of the seed."""

    class Drawn(NoPE):
        def __init__(self, shape):
            super().__init__(shape)
            self.weight = torch.nn.Parameter(torch.randn(3))

    ENCODINGS.register("own", EncodingEntry(make=Drawn, label="Drawn"))
    torch.manual_seed(3)
    expected = torch.randn(3)
    torch.manual_seed(3)
    assert torch.equal(make_encoding("own", SHAPE).get_parameter("weight"), expected)


@pytest.mark.parametrize("name", OURS)
def test_ours_are_what_is_asked_of_others(name):
    """In spite of other defaults around them."""
    posym_core.encodings._registry._try_out.cache_clear()
    with torch.device("meta"):
        posym_core.encodings._registry._try_out(ENCODINGS[name])
