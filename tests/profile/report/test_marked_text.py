"""Prompts as people have them: text with marked blocks, and what they become."""

from __future__ import annotations

import json

import pytest
from saved_models import save_model

from posym_profile.__main__ import main
from posym_profile.language_models._loading import load_tokenizer
from posym_profile.report._folder import read_scores
from posym_profile.report._marked_text import parse_marked_prompt, parse_marked_prompts
from posym_profile.report._prompt_files import PromptFileError, read_prompts

TEXT = "Ann likes red. Bob likes blue. Bob likes"
MARKED = "[[Ann likes red.]] [[Bob likes blue.]] Bob likes"
ANSWERED = MARKED + " <<blue|red>>"
WORDS = {"text": TEXT, "blue": " blue", "red": " red"}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(save_model(tmp_path_factory.mktemp("marked") / "model"))


@pytest.fixture(scope="module")
def tokenizer(model):
    return load_tokenizer(model)


@pytest.mark.parametrize(
    ("marked", "text", "blocks", "answers"),
    [
        (MARKED, TEXT, ["Ann likes red.", "Bob likes blue."], None),
        (f"  {ANSWERED}\n", TEXT, ["Ann likes red.", "Bob likes blue."], [" blue", " red"]),
        ("[[a b]][[ c d]] e\n<<x | y z|w>>", "a b c d e", ["a b", " c d"], ["\nx", "\ny z", "\nw"]),
        ("[[我喜欢红]][[他喜欢蓝]]他喜欢<<蓝|红>>", "我喜欢红他喜欢蓝他喜欢", ["我喜欢红", "他喜欢蓝"], ["蓝", "红"]),
        # What is no mark, or has a backslash in front, is text.
        (r"\[[x\]] [[a]] [[b]] c", "[[x]] a b c", ["a", "b"], None),
        (r"[[\[[a\]]]] [[b]] c", "[[a]] b c", ["[[a]]", "b"], None),
        ("[[a[0]]] [[[b] c]] [d]", "a[0] [b] c [d]", ["a[0]", "[b] c"], None),
        (r"[[a\n]] [[\b c]] x << 2", r"a\n \b c x << 2", [r"a\n", r"\b c"], None),
        (r"[[a]] [[b]] cout << x \>>", "a b cout << x >>", ["a", "b"], None),
        (r"[[a]] [[b]] c <<d\|e|f\>>>>", "a b c", ["a", "b"], [" d|e", " f>>"]),
        ("[[a]] [[b]] c <<<i>|<b>>>", "a b c", ["a", "b"], [" <i>", " <b>"]),
    ],
)
def test_marks_become_spans(marked, text, blocks, answers):
    found = parse_marked_prompt(marked)
    assert found["text"] == text
    assert [text[first:last] for first, last in found["blocks"]] == blocks
    assert found.get("answers") == answers


@pytest.mark.parametrize(
    ("content", "prompts"),
    [
        ("a\n\n  \nb\r\n", [(1, "a"), (4, "b")]),
        ("a\nb\n---\n\n\nc\n\nd\n--- \n---\n", [(1, "a\nb"), (6, "c\n\nd\n")]),
        ("---\na\n", [(2, "a")]),
        ("a --- b\n", [(1, "a --- b")]),
        ("", []),
    ],
)
def test_prompts_are_lines_or_stand_between_lines_of_three_hyphens(content, prompts):
    found = list(parse_marked_prompts(content.splitlines(keepends=True)))
    assert [(number, text.strip("\n")) for number, text in found] == [(n, text.strip("\n")) for n, text in prompts]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Ann likes", r"no block is marked in 'Ann likes'; put \[\[ and \]\] around each part .*: \[\[Ann likes red"),
        ("[[Ann likes]] red <<blue|red>>", "at least two blocks are needed to swap; got 1"),
        ("[[Ann [[likes]] red", r"\[\[ begins a block within a block, at character 6: .*; put a backslash .*: \\\[\["),
        ("Ann]] likes", r"\]\] ends a block that \[\[ has not begun, at character 3: .*plain text: \\\]\]"),
        ("[[Ann]] [[likes", r"a block is not ended: '\[\[likes'; put \]\] behind it, or write \\\[\["),
        ("[[Ann]] [[]] red <<blue|red>>", r"blocks must have equally many tokens, at least 1; got \[1, 0\]"),
        (MARKED + " <<blue>>", r"must hold at least two words with \| between, the right one first.*; got <<blue>>"),
        (MARKED + " <<blue|>>", "must hold at least two words"),
        (MARKED + " <<blue|blue>>", "answers must be different tokens, but with this tokenizer ' blue' and ' blue'"),
        (MARKED, "it has no answers, unlike the prompt of line 1, and either all .* or none; add or remove them"),
        # What only the tokenizer knows.
        (
            "[[Ann likes.]] [[Bob likes blue.]] Bob <<red|blue>>",
            "got .3, 4.*: block 0 is 'Ann' 'likes' '.' and block 1 is",
        ),
        (
            MARKED + " <<blue|red red>>",
            "must add one token .*, but with this tokenizer ' red red' adds 2; pass another",
        ),
        (MARKED + " <<nobody|nothing>>", "' nobody' and ' nothing' are the same; leave one out"),
        (
            "[[Ann likes red.]] [[Bob likes blue.]] <<blue|red>>",
            "the text ends with block 1, but its last token is the",
        ),
    ],
)
def test_a_bad_prompt_is_refused_with_its_line(line, message, tmp_path, tokenizer):
    (tmp_path / "p.txt").write_text(f"{ANSWERED}\n\n{line}\n", encoding="utf-8")
    with pytest.raises(PromptFileError, match=rf"p\.txt, line 3: .*{message}"):
        read_prompts(tmp_path / "p.txt", tokenizer)


def measured(model, out, *source):
    assert main(["profile", model, *map(str, source), "--no-report", "--out", str(out)]) == 0
    return read_scores(out)


def test_marked_text_and_token_ids_by_hand_have_the_same_profile(model, tokenizer, tmp_path, capsys):
    ids = {name: tokenizer(text, add_special_tokens=False)["input_ids"] for name, text in WORDS.items()}
    place = {"input_ids": [1, *ids["text"]], "start": 1, "block_length": 4, "blocks": 2}
    by_hand = [
        place | {"id": 1, "answer_ids": ids["blue"] + ids["red"]},
        place | {"id": 2, "answer_ids": ids["red"] + ids["blue"], "target": 1},
    ]
    (tmp_path / "hand.jsonl").write_text("".join(json.dumps(line) + "\n" for line in by_hand))
    (tmp_path / "marked.txt").write_text(f"{ANSWERED}\n{ANSWERED}\n")
    expected = measured(model, tmp_path / "hand", "--input", tmp_path / "hand.jsonl")
    assert "right on " in capsys.readouterr().out
    found = measured(model, tmp_path / "marked", "--input", tmp_path / "marked.txt")
    # What a profile wrote has the answers, too.
    again = measured(model, tmp_path / "again", "--input", tmp_path / "marked" / "prompts.jsonl")
    assert {"correct", "alternatives"} <= set(expected)
    for other, name in ((found, "marked"), (again, "again")):
        assert other.equals(expected)
        one, two = (read_prompts(tmp_path / which / "prompts.jsonl", tokenizer) for which in ("hand", name))
        assert [(x.input_ids, x.answer_ids[x.target]) for x in one] == [
            (x.input_ids, x.answer_ids[x.target]) for x in two
        ]


def test_prompts_that_a_tokenizer_refuses_leave_a_folder_as_it_was(model, tmp_path, capsys):
    (tmp_path / "p.txt").write_text(MARKED)
    command = ["profile", model, "--no-report", "--out", str(tmp_path / "out"), "--input"]
    assert main([*command, str(tmp_path / "p.txt")]) == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    (tmp_path / "q.txt").write_text("[[Ann likes.]] [[Bob likes blue.]] Bob")
    assert main([*command, str(tmp_path / "q.txt"), "--force"]) == 1
    assert "blocks must have equally many tokens" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    command[-2] = str(tmp_path / "new")
    assert main([*command, str(tmp_path / "q.txt")]) == 1
    assert not (tmp_path / "new").exists()
