import functools
import importlib
import json
from dataclasses import replace

import numpy as np
import pytest
from invented import invent_random_weights, save_invented

from posym_companion.old_claims import list_claim_ids, load_claim, read_entries
from posym_companion.language_models.binding_profile import full_size, random_weight_settings
from posym_companion.language_models.judges import binding_planes, binding_profile
from posym_companion.ledger import VERDICTS, ledger
from posym_companion.ledger import rows as ledger_rows
from posym_companion.one_head import head_geometry
from posym_companion.one_head.judges import frequency_control
from posym_companion.one_head.judges import head_geometry as trained_geometry
from posym_profile import __main__ as command_line

BINDING = ("U25-1", "U25-2", "U25-3", "U25-4a", "U25-4b", "U25-4c")
THEORY = {f"U25-T{n}" for n in range(2, 8)} | {"U26-4a", "U26-4b"}


@pytest.fixture(scope="module", autouse=True)
def _theory_once():
    """What needs no result is measured once for all folders."""
    module = ledger_rows
    measured, theory = module._measured, {load_claim(name).measure for name in THEORY}
    once = functools.cache(functools.partial(measured, None))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            module,
            "_measured",
            lambda folder, x, *remedy, **model: once(x) if x in theory else measured(folder, x, *remedy, **model),
        )
        yield


@pytest.fixture(scope="module", autouse=True)
def _few_draws():
    """What is invented here is far from every line, and of stored results only words are read: few draws tell."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(binding_profile, "DRAWS", 60)
        patch.setattr(trained_geometry, "DRAWS", 40)
        patch.setattr(binding_planes, "DRAWS", 40)
        yield


def invented(folder, *, trend=1.0, coupling=-1.0, violation=0.0, globals_only=False):
    """Results with known effects, to see every verdict come out both ways.

    With ``globals_select_heads`` early and late layers differ because two of the three global ones stand late.
    """
    generator = np.random.default_rng(0)
    invent_random_weights(folder, as_claimed=coupling < 0)
    for setting in (setting for setting in full_size() if setting.keys == "all"):
        shape = (6, 18, 4)
        slower = np.isin(np.arange(18), [0, *range(9, 15)] if globals_only else [5, 11, 17])
        early = np.where(slower if globals_only else np.arange(18) >= 9, -1.0, 1.0)[None, :, None] * trend
        positional = 0.5 + 0.2 * early + 0.05 * generator.normal(size=(1, 18, 4)) + 0.01 * generator.normal(size=shape)
        symbolic = 0.5 + coupling * (positional - 0.5) + 0.02 * generator.normal(size=shape)
        slow = np.linspace(-1, 1, 128)
        bound = generator.uniform(1, 2, shape)
        arrays = {
            "positional": positional,
            "symbolic": symbolic,
            "null_positional": generator.uniform(size=shape),
            "null_symbolic": generator.uniform(size=shape),
            "correct": generator.random(6) < 0.5,
            "alternatives": np.full(6, 4),
            "variance": bound * (0.5 + violation),
            "slack": bound * (0.5 - violation),
            "bound": bound,
            "plane_angle": np.where(slower, 0.01, 1.0)[:, None] * 10.0 ** -np.linspace(0, 3, 128),
            **{
                f"plane_{name}": np.broadcast_to(0.5 + 0.7 * sign * trend * slow, (2, 18, 4, 128))
                for name, sign in [
                    ("positional", -1),
                    ("symbolic", 1),
                    ("positional_share", -1),
                    ("symbolic_share", 1),
                ]
            },
        }
        save_invented(setting.name, arrays, folder)
    for setting in random_weight_settings():
        # Planes of random weights lean to nothing.
        save_invented(setting.name, {name: 0 * x + 0.5 for name, x in arrays.items() if "plane" in name}, folder)
    return {row.id: row for row in ledger(*BINDING, folder=folder)}


def test_every_claim_has_a_row_and_an_allowed_verdict(tmp_path):
    rows = ledger(folder=tmp_path)
    assert [row.id for row in rows] == list_claim_ids()
    assert sorted(one.id for row in rows for one in (row, *row.columns)) == sorted(read_entries())
    assert len(rows) <= 61
    for row in rows:
        assert row.verdict in VERDICTS
        assert row.claim
        assert row.paper
        assert row.note or row.ours


def test_only_the_claims_asked_for_are_judged(tmp_path, monkeypatch):
    judges = {}
    load_claim.cache_clear()  # whoever was judged before keeps what judges it
    monkeypatch.setattr(importlib, "import_module", lambda name: judges.setdefault(name, frequency_control))
    assert ledger("U25-7", folder=tmp_path)[0].verdict == "not run here"
    assert list(judges) == ["posym_companion.one_head.judges.frequency_control"]
    monkeypatch.undo()
    load_claim.cache_clear()
    assert [row.id for row in ledger("U25-7", "G26-1a", folder=tmp_path)] == ["U25-7", "G26-1a"]


def test_verdicts_follow_the_numbers(tmp_path):
    rows = invented(tmp_path / "with")
    assert rows["U25-1"].verdict == "reproduced"
    verdicts = [rows[name].verdict_of_column or rows[name].verdict for name in BINDING[1:]]
    assert verdicts == [*["reproduced in kind"] * 3, "partly", "not reproduced"]
    assert rows["U25-2"].parts["early layers are positional, over all layers"] == "9 of 9 kinds of prompt"
    for row in rows.values():
        assert row.ours
        assert row.evidence
        assert row.model == "gemma-3-270m"
        assert set(row.numbers) <= set(row.ours)
    rows = invented(tmp_path / "against", trend=-1.0, coupling=1.0, violation=0.6)
    assert len(rows["U25-4a"].fails_in) == 6
    assert all(": s" in case and "slowest quarter" in case for case in rows["U25-4a"].fails_in)
    assert rows["U25-1"].verdict == "refuted as stated"
    # Scores that rise together are late symbolic where they are late positional.
    assert [rows[name].verdict for name in BINDING[1:]] == ["partly", *["not reproduced"] * 4]


def other_models(folder, models, coupling=-1.0):
    """Profiles of other models, with an early-late contrast and scores that fall or rise together."""
    generator = np.random.default_rng(0)
    for number, model in enumerate(models):
        early = np.where(np.arange(18) < 9, 0.2, -0.2)[None, :, None]
        positional = 0.5 + early + 0.05 * generator.normal(size=(6, 18, 4))
        arrays = {"positional": positional, "symbolic": 0.5 + coupling * (positional - 0.5)}
        settings = {"model": model, "template": "likes", "facts": 16, "seed": 0}
        save_invented(f"binding_profile/{number}", arrays, folder, **settings)
    return ledger("U25-5", folder=folder)[0]


def test_other_families_are_judged_once_all_three_are_there(tmp_path):
    families = ["google/gemma-2-2b-it", "Qwen/Qwen2-1.5B", "meta-llama/Llama-3.2-1B"]
    some = other_models(tmp_path / "some", [*families[:2], "google/gemma-2b", "Qwen/Qwen3-1.7B"])
    assert some.verdict == "not run here"
    assert "no profile of Llama-3" in some.note
    assert "--model NAME" in some.command
    row = other_models(tmp_path / "all", families)
    assert row.verdict == "reproduced"
    assert len(row.evidence) == 3
    against = other_models(tmp_path / "against", families, coupling=1.0)
    assert against.verdict == "partly"
    assert [held[:6] for held in against.parts.values()] == ["0 of 3", "3 of 3", "0 of 3"]


def invented_toys(folder, *, control=True, bend=1):
    """Toys whose accuracy follows the angle, or does not, and bends one way or the other."""
    angles = 10.0 ** (-np.arange(32) / 8)
    asked, place = np.full((5, 32), 1000), np.linspace(-1, 1, 32)
    fast = np.clip(1.2 - np.arange(32) / 20, 0.1, 1.0)
    moderate = np.clip(1.2 - np.abs(np.arange(32) - 14) / 12, 0.4, 1.0)
    levels = {
        "index_single": (fast if control else fast[::-1], bend),
        "retrieval_single": (fast[::-1] if control else fast, -bend),
        "induction_single": (0.5 * moderate if control else moderate, 0),
        "induction_pair": (moderate, 0),
    }
    arrays = {"angles": angles}
    for cell, (level, sign) in levels.items():
        curve = np.clip(level[:, None] * (1 + 0.1 * sign * (2 * place**2 - 1)), 0, 1)
        arrays[f"{cell}_32/hits"] = np.round(curve * 1000).astype(np.int16)[None].repeat(5, 0)
        arrays[f"{cell}_32/asked"] = asked
    save_invented("frequency_control/full", arrays, folder, lengths=[32])
    return ledger("U25-6", "U25-7", folder=folder)


def test_verdicts_on_toys_follow_the_numbers(tmp_path):
    control, bend = invented_toys(tmp_path)
    assert (control.verdict, bend.verdict) == ("reproduced in kind", "reproduced in kind")
    assert bend.parts["Index is U-shaped"] != "0 of 0 angles"
    control, bend = invented_toys(tmp_path, control=False, bend=-1)
    assert (control.verdict, bend.verdict) == ("partly", "not reproduced")
    assert [part for part, answer in control.parts.items() if answer.startswith("1 of 1")] == [
        "Partial induction is solved with 0 and a moderate angle",
        "Partial induction fails with 0 and the fastest or slowest",
    ]


def invented_geometry(
    folder, *, shared=True, aimed=True, matched=True, wavy=True, learned=True, followed=True, early=False
):
    """Toys with queries and keys in one plane, and a model's planes, that look as claimed or not."""
    generator = np.random.default_rng(0)
    angles, n = 10.0 ** (-np.arange(32) / 8), 32

    def stored(phase, size):
        phase = np.broadcast_to(phase, (5, 32, size))
        return np.stack([np.cos(phase), np.sin(phase)], axis=-1).astype(np.float16)

    anywhere, position = generator.uniform(0, 2 * np.pi, (5, 32, 32)), np.arange(n) - n
    circle = 2 * np.pi * np.arange(n) / n
    solved = np.arange(32) < 8
    aim = np.where((solved & aimed | early)[:, None], angles[:, None] * position, anywhere)
    reached = {"index": np.where(solved, 1000, 100), "retrieval": np.where(solved, 100, 1000)}
    nothing = np.full((5, 32, n), np.nan)
    parts = np.concatenate([np.broadcast_to(circle, (5, 32, n)), np.zeros((5, 32, 8 + n + 1))], axis=-1)
    own = stored(parts, 8 + 2 * n + 1)
    own[:, :, n:] = 0
    arrays = {
        "angles": angles,
        "index_single_32/query": stored(aim, n),
        "index_single_32/key": np.concatenate([stored(0.0 if shared else anywhere, n), stored(nothing, n)], axis=2),
        "retrieval_single_32/query": stored(circle - angles[:, None] * (n + 1) / 2 if matched else anywhere, n),
        "retrieval_single_32/key": own,
        **{f"{task}_single_32/hits": np.tile(hits[:, None] // n, (5, 1, n)) for task, hits in reached.items()},
        **{f"{task}_single_32/asked": np.full((5, n), 1000 // n) for task in reached},
    }
    save_invented("frequency_control/full", arrays, folder, lengths=[32])
    concentration = generator.uniform(size=(6, 4, 9))
    for setting in head_geometry.full_size():
        traced = 0.9 if setting.trained or not learned else 0.2
        any_speed, turning = (0.8, traced) if wavy else (0.2, 0.3 * traced)
        explained = np.broadcast_to([any_speed, turning, 0.1, *[0.0] * 6], (6, 4, 9))
        planes = {
            "concentration": concentration,
            "positional_share": concentration,
            "energy_share": np.full((6, 4, 9), 1 / 9),
            "r2_test": explained,
            "kernel": np.full((6, 9), 0.2),
            "head_positional_share": generator.uniform(size=(2, 6, 4)),
            "place_followed": np.full((3, 6, 4), 0.9 if followed else 0.1),
            "place_unmoved": np.full((3, 6, 4), 0.5),
            "place_correct": np.tile([1.0, 0.0], (4, 2)),
            "dominant": np.broadcast_to(np.arange(3)[:, None, None], (3, 6, 4)),
        }
        save_invented(setting.name, planes, folder)
    return ledger("U25-8a", "U25-8b", folder=folder)


def test_the_verdicts_on_trained_geometry_follow_the_numbers(tmp_path):
    toys, model = invented_geometry(tmp_path / "as claimed")
    assert (toys.verdict, model.verdict) == ("reproduced in kind", "reproduced in kind")
    assert (toys.fails_in, model.fails_in, toys.note) == ([], [], "Intervals over seeds.")
    for change, part in {
        "shared": "keys share one direction",
        "aimed": "queries point at their target",
        "wavy": "the wave of Theorem 3",
        "learned": "more of it than with random weights",
        "followed": "the query encodes the target",
    }.items():
        toys, model = invented_geometry(tmp_path / change, **{change: False})
        judged = toys if change in ("shared", "aimed") else model
        # Keys in every direction leave a control alone, which says nothing for the claim.
        assert judged.verdict == ("not reproduced" if change == "shared" else "partly")
        assert judged.parts[part][:6] in ("no", "0 of 4", "0 of 3")
        assert (model if judged is toys else toys).verdict == "reproduced in kind"
        case = {
            "shared": "Index solved: concentration of keys: ",
            "aimed": "Index solved: queries that point at their target: ",
            "wavy": "text: R2 of the wave at positional planes of any speed 0.2 [0.2, 0.2]",
            "learned": "running text: R2 above that of random weights by: 0, more than 0 was asked",
            "followed": "name 2: cosine with an angle that follows less that with one that stays -0.4",
        }[change]
        assert any(said.startswith(case) for said in judged.fails_in)
    toys, _ = invented_geometry(tmp_path / "early", early=True)
    early = (
        "Queries turn with the target (alignment above 0.9) at 24 angles, too, at which Index fails, with accuracies"
    )
    assert toys.note.startswith(f"{early} from 0.10 to 0.10.")


def test_json_is_what_the_ledger_says(tmp_path, capsys):
    invented(tmp_path)
    assert command_line.main(["claims", "--json", "--results", str(tmp_path)]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["id"] for row in rows] == list_claim_ids()
    for row in rows:
        assert set(row) >= {"id", "claim", "paper", "ours", "model", "evidence", "verdict", "rule", "rule_fixed"}
        assert set(row) >= {"history", "numbers", "changes", "fails_in", "answers", "columns"}
        assert row["grade"].startswith(row["verdict"])
        assert bool(row["decides"]) == (row["verdict"] in ("partly", "not reproduced", "refuted as stated")), row["id"]
    interval = rows[1]["ours"]["median s_SYM late (likes, 16 facts, all layers)"]
    assert interval["interval"][0] <= interval["value"] <= interval["interval"][1]


def test_errors_end_in_one_line(tmp_path, capsys):
    invented(tmp_path)
    next(tmp_path.glob("*/*.npz")).write_bytes(b"")
    assert command_line.main(["claims", "--results", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith("error: gemma-3-270m_")


def test_a_sentence_shows_the_numbers_of_its_row():
    judged = load_claim("U25-T3")
    found = ledger_rows.make_row(judged)
    number = "angles and lengths at which the head is right on every input"
    written = replace(judged, sentences={found.verdict: f"{{{number}}}, with {{share|.0%}} and {{whole|.1f}}."})
    estimate = {"value": 0.125, "interval": [0.0, 0.5]}
    shown = replace(found, ours={number: "5 of 5", "share": estimate, "whole": 2.25})
    assert ledger_rows.write_sentence(written, shown) == "5 of 5, with 12% and 2.2."
    assert ledger_rows.write_sentence(replace(judged, sentences={"partly": "It is not."}), found) == found.summary
    with pytest.raises(ValueError, match=r"U25-T3: its sentence has \{depth\}; numbers of ours are angles and"):
        ledger_rows.write_sentence(replace(judged, sentences={found.verdict: "{depth}"}), found)
