"""Encodings of one's own: a file, found by name, in tables and experiments; what is refused."""

import re
from collections.abc import Iterator

import pytest
import torch
from own_packages import as_before, example

import posym_core.encodings
from posym_companion.encodings import ability_table
from posym_companion.encodings.encoding_study import EncodingStudy
from posym_companion.encodings.encoding_study import full_size as studies
from posym_core import encodings
from posym_core._extensions import ExtensionError
from posym_core.encodings._registry import EncodingEntry
from posym_profile.prompts import PROMPT_TASKS

OURS = list(encodings.ENCODINGS)
PLAIN = "from posym_core.encodings import NoPE\nclass Window(NoPE): ...\n"
SHAPE = encodings.LayerShape(heads=2, dim=8, width=6, length=16)


@pytest.fixture
def patch(tmp_path) -> Iterator[pytest.MonkeyPatch]:
    with as_before(encodings.ENCODINGS, tmp_path) as patch:
        yield patch


def test_the_example_is_found_by_adding_one_file(patch, tmp_path):
    """Questions and experiments know it, and nothing else was edited."""
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "window.py").write_text(example("An encoding"), encoding="utf-8")
    patch.setattr(posym_core.encodings, "__path__", [*posym_core.encodings.__path__, str(tmp_path / "room")])
    encodings.ENCODINGS._imported = False
    assert list(encodings.LABELS) == [*OURS, "window"]
    made = encodings.make_encoding("window", SHAPE, depth=3.0)
    far, near = made.cross_logits(torch.zeros(2, 8), torch.zeros(2, 8, 8)).aminmax()
    assert (float(far), float(near)) == (-3, 0)
    assert {answer.reason for answer in ability_table(["window"])} == {"nobody has proved yet what its heads can be"}
    assert {setting.task for setting in studies() if setting.setup == "window"} == {"distance", "count"}
    model = EncodingStudy(task="count", setup="window", seeds=(0,), steps=2, test=4, ablated=4, pointed=2)
    assert model.setup == "window"


def test_after_it_is_removed_it_is_unknown():
    assert "window" not in encodings.ENCODINGS
    assert list(encodings.LABELS) == OURS
    message = r"encoding must be one of 'nope', .*'urpe', or module:name for one of your own; got 'window'"
    with pytest.raises(ValueError, match=message):
        encodings.make_encoding("window", SHAPE)
    with pytest.raises(ValueError, match=r"setup must be one of .*; got 'window'"):
        EncodingStudy(task="count", setup="window")


def test_a_class_in_no_package_goes_by_module_and_name(patch, tmp_path):
    (tmp_path / "mine.py").write_text(PLAIN, encoding="utf-8")
    patch.syspath_prepend(tmp_path)
    assert type(encodings.make_encoding("mine:Window", SHAPE)).__module__ == "mine"
    assert list(encodings.ENCODINGS) == OURS


def test_two_of_one_name_are_refused():
    with pytest.raises(ExtensionError, match=r"'rope' is posym_core.encodings._rotary:RoPE already, and .*Other asks"):

        @encodings.register_encoding("rope", "Other")
        class Other(encodings.NoPE): ...

    assert encodings.ENCODINGS["rope"].make is encodings.RoPE


class WithoutBias(encodings.Biased):
    pass


class WithoutC(encodings.Encoding):
    pass


class Needy(encodings.NoPE):
    def __init__(self, shape, base):
        super().__init__(shape)


@pytest.mark.parametrize(("given", "message"), [
    (3, "encoding 'own' must be a class of posym_core.encodings.Encoding; got 3"),
    (torch.nn.Linear, "got <class 'torch.nn.modules.linear.Linear'>"),
    (lambda shape: encodings.NoPE(shape), "must be a class"),
    (WithoutBias, "encoding 'own' must define bias, which WithoutBias does not$"),
    (WithoutC, "must define _cross_logits, which WithoutC does not; or require_cross_logits, which says why"),
    (Needy, r"encoding 'own' is made for a LayerShape alone, but Needy takes \(shape, base\): missing .*'base'; give"),
])  # fmt: skip
def test_what_is_no_encoding_is_refused_when_it_registers(given, message, patch):
    """Not when it is used, hours into an experiment."""
    with pytest.raises(ExtensionError, match=message):
        encodings.ENCODINGS.register("own", given)
    assert "own" not in encodings.ENCODINGS


@pytest.mark.parametrize(
    ("registry", "decorator"),
    [(encodings.ENCODINGS, "@register_encoding(name, label)"), (PROMPT_TASKS, "@register_prompt_task(name)")],
)
def test_a_registry_is_written_by_its_decorator_alone(registry, decorator):
    names = registry.names()
    with pytest.raises(TypeError, match=rf"'own' cannot be assigned, .*; register it with {re.escape(decorator)}$"):
        registry["own"] = encodings.NoPE
    with pytest.raises((TypeError, AttributeError)):
        del registry[names[0]]
    assert registry.names() == names


@pytest.mark.parametrize(("method", "change", "message"), [
    ("_logits", lambda x: x[:1], r"logits of .*Own must have shape \[2, 5, 5\] .*; got \[1, 5, 5\] of torch.float64"),
    ("_logits", lambda x: x.float(), r"type of number for 2 heads and 5 tokens; got \[2, 5, 5\] of torch.float32"),
    ("attention", lambda x: x[..., :-1], r"attention of .*Own must have shape \[2, 5, 5\] .*; got \[2, 5, 4\]"),
    ("_cross_logits", lambda x: x[..., 1:], r"cross_logits of .*Own must have shape \[2, 4, 4\] .*; got \[2, 4, 3\]"),
    ("_cross_logits", lambda x: x + torch.arange(4.0), r"C\[a, b\] of .*Own must be the logit that content a has .*"
     r" differs by up to 3.0e\+00; mend its"),
    ("_cross_logits", lambda x: x.mT, "C.a, b. of .*Own must be the logit"),
    ("_cross_logits", lambda x: x * torch.nan, "C.a, b. of .*Own .* differs by up to nan"),
])  # fmt: skip
def test_logits_and_cross_logits_are_compared_on_one_small_input(method, change, message, patch):
    plain = getattr(encodings.NoPE, method)
    changed = {method: lambda *given, **options: change(plain(*given, **options))}
    encodings.ENCODINGS.register("own", type("Own", (encodings.NoPE,), changed))
    with pytest.raises(ExtensionError, match=message):
        encodings.make_encoding("own", SHAPE)


def test_what_does_not_fit_the_small_input_is_left_to_its_layer(patch):
    class Wide(encodings.NoPE):
        def __init__(self, shape):
            if shape.dim < 64:
                raise ValueError("dim must be at least 64")
            super().__init__(shape)

    encodings.ENCODINGS.register("own", Wide)
    assert encodings.make_encoding("own", encodings.LayerShape(heads=1, dim=64)).shape.dim == 64
    with pytest.raises(ValueError, match="dim must be at least 64"):
        encodings.make_encoding("own", SHAPE)


def test_trying_an_encoding_out_draws_nothing(patch):
    """What is drawn after it is the same as without it, and its parameters are those of the seed."""

    class Drawn(encodings.NoPE):
        def __init__(self, shape):
            super().__init__(shape)
            self.weight = torch.nn.Parameter(torch.randn(3))

    encodings.ENCODINGS.register("own", EncodingEntry(make=Drawn, label="Drawn"))
    torch.manual_seed(3)
    expected = torch.randn(3)
    torch.manual_seed(3)
    assert torch.equal(encodings.make_encoding("own", SHAPE).get_parameter("weight"), expected)


@pytest.mark.parametrize("name", OURS)
def test_ours_are_what_is_asked_of_others(name):
    """In spite of other defaults around them."""
    posym_core.encodings._registry._try_out.cache_clear()
    with torch.device("meta"):
        posym_core.encodings._registry._try_out(encodings.ENCODINGS[name])
