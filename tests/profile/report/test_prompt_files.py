"""Prompts as people have them: text with marked blocks, token ids of programs, and what they become."""

import json

import pytest
from saved_models import WORDS, save_model

from posym_profile.__main__ import main
from posym_profile.language_models._loading import load_tokenizer
from posym_profile.report import read_prompts
from posym_profile.report._prompt_files import PromptFileError, parse_marked_text, read_marked_text

TEXT = "Ann likes red. Bob likes blue. Bob likes"
MARKED = "[[Ann likes red.]] [[Bob likes blue.]] Bob likes"
ANSWERED = MARKED + " <<blue|red>>"
IDS = {"input_ids": [1, 3, 4, 5, 3, 4, 6, 3], "start": 1, "block_length": 3}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(save_model(tmp_path_factory.mktemp("marked") / "model"))


@pytest.fixture(scope="module")
def tokenizer(model):
    return load_tokenizer(model)


@pytest.fixture
def read(tmp_path, tokenizer):
    def read(*lines, name="prompts.jsonl", tokenizer=tokenizer):
        written = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        (tmp_path / name).write_text("\n".join(written) + "\n", encoding="utf-8")
        return read_prompts(tmp_path / name, tokenizer)

    return read


@pytest.mark.parametrize(
    ("marked", "text", "blocks", "answers"),
    [
        (MARKED, TEXT, ["Ann likes red.", "Bob likes blue."], []),
        (f"  {ANSWERED}\n", TEXT, ["Ann likes red.", "Bob likes blue."], [" blue", " red"]),
        ("[[a b]][[ c d]] e\n<<x | y z|w>>", "a b c d e", ["a b", " c d"], ["\nx", "\ny z", "\nw"]),
        ("[[我喜欢红]][[他喜欢蓝]]他喜欢<<蓝|红>>", "我喜欢红他喜欢蓝他喜欢", ["我喜欢红", "他喜欢蓝"], ["蓝", "红"]),
        ("[[a[0]]] [[[b] c]] [d]", "a[0] [b] c [d]", ["a[0]", "[b] c"], []),
        (r"[[a\n]] [[\b c]] x << 2", r"a\n \b c x << 2", [r"a\n", r"\b c"], []),
    ],
)
def test_marks_become_spans(marked, text, blocks, answers):
    written, spans, words = parse_marked_text(marked)
    assert (written, words) == (text, answers)
    assert [text[first:last] for first, last in spans] == blocks


def test_blocks_of_text_become_blocks_of_tokens(read):
    first, second = read(MARKED, "", "and so " + MARKED, name="p.txt")
    words = [WORDS[token] for token in first.input_ids[0].tolist()]
    assert words == ["<s>", "Ann", "likes", "red", ".", "Bob", "likes", "blue", ".", "Bob", "likes"]
    assert first.layout == {"start": 1, "block_length": 4, "blocks": 2}
    assert (second.layout, second.names) == (first.layout | {"start": 3}, ["3"])


def test_prompts_of_one_shape_stand_together(read):
    other = IDS | {"input_ids": [0, *IDS["input_ids"]], "id": 7, "answer_ids": [5, 6], "target": 1}
    found = read(IDS | {"answer_ids": [6, 5]}, other, IDS | {"answer_ids": [5, 6], "id": "b"})
    assert [list(some.names) for some in found] == [["1", "b"], ["7"]]
    assert found[0].input_ids.tolist() == [IDS["input_ids"]] * 2
    assert [some.answer_ids.tolist() for some in found] == [[[6, 5], [5, 6]], [[5, 6]]]
    assert [some.target.tolist() for some in found] == [[0, 0], [1]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Ann likes", r"no block is marked in 'Ann likes'; put \[\[ and \]\] around each part .*: \[\[Ann likes red"),
        ("[[Ann likes]] red <<blue|red>>", "at least two blocks are needed to swap; got 1"),
        ("[[Ann [[likes]] red", r"each \[\[ must be followed by its own \]\], but not at character 6: '\[\[Ann \[\[li"),
        ("[[Ann]] [[likes", r"each \[\[ must be followed by its own \]\], but not at character 8"),
        ("[[" * 100_000, r"each \[\[ must be followed by its own \]\], but not at character 2"),
        ("[[Ann]] [[]] red <<blue|red>>", "equally many tokens, at least 1, .* block 1 '' .* have 0 and 1; re"),
        (MARKED + " <<blue>>", r"must hold at least two words with \| between, the right one first.*; got <<blue>>"),
        (MARKED + " <<<i>|<b>>>", "must hold at least two words"),
        (MARKED + " <<blue|blue>>", "answers must be different tokens .*, but ' blue' is as one before"),
        (MARKED, "all prompts must have answers or none, unlike this one and that of line 1"),
        # What only the tokenizer knows.
        ("[[Ann likes.]] [[Bob likes blue.]] Bob <<red|blue>>", "block 0 'Ann likes.' and .* have 3 and 4; reword"),
        ("[[Ann like]]s [[Bob likes]] red <<red|blue>>", "an end of a block cuts the token 'likes' at characters 4 to"),
        ("[[Ann likes]] red [[Bob likes]] red <<red|blue>>", "blocks must stand one after the other, but there is"),
        (MARKED + " <<blue|red red>>", "must add one token .*, but with this tokenizer ' red red' does not"),
        ("[[Ann likes red.]] [[Bob likes blue.]] <<blue|red>>", "the last token is the query, and must stand behind"),
    ],
)  # fmt: skip
def test_a_bad_line_of_text_is_refused_with_its_number(read, line, message):
    with pytest.raises(PromptFileError, match=rf"p\.txt, line 3: .*{message}"):
        read(ANSWERED, "", line, name="p.txt")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r'must be one JSON object, but .* at column \d+; write \{"input_ids"'),
        ("[" * 100_000, "maximum recursion depth exceeded|must be one JSON object"),
        ({"text": "a"}, "must be a JSON object with 'input_ids'"),
        (IDS | {"lenght": 3}, "unknown 'lenght'; remove it"),
        ('{"input_ids": [1, 2, 3], "start": 0, "start": 1}', "a name stands twice among .*; leave one out"),
        (IDS | {"id": [1]}, r"'id' must be text that can be printed, or a whole number; got \[1\]"),
        (IDS | {"id": "\ud800"}, "'id' must be text that can be printed"),
        (IDS | {"id": "x\r"}, "'id' must be text that can be printed"),
        (IDS | {"id": "1"}, "'id' '1' is that of line 1 already; give it another"),
        (IDS | {"input_ids": [1, 2]}, "'input_ids' must be a list of at least 3 whole numbers"),
        (IDS | {"input_ids": [True, 1, 2, 3]}, "'input_ids' must be a list of at least 3 whole numbers"),
        (IDS | {"input_ids": [*IDS["input_ids"], 97]}, "'input_ids' must lie between 0 and 96 for this model; got 97"),
        (IDS | {"answer_ids": [3]}, "'answer_ids' must be a list of at least 2 whole numbers"),
        (IDS | {"answer_ids": [3, 3]}, "'answer_ids' must be different tokens"),
        (IDS | {"answer_ids": [3, 4], "target": 2}, "'target' must be a place in 'answer_ids', of which there are 2"),
        (IDS | {"answer_ids": [3, 4]}, "all prompts must have answers or none, unlike this one and that of line 1"),
        ({"input_ids": [1, 2, 3], "start": 0}, "block_length must be a whole number of at least 1; got None"),
        (IDS | {"start": -1}, "start must be a whole number of at least 0; got -1"),
        (IDS | {"block_length": "3"}, "block_length must be a whole number of at least 1; got '3'"),
        (IDS | {"blocks": 1}, r"blocks must be a whole number of at least 2 \(.*\); got 1"),
        (IDS | {"blocks": 3}, "blocks cover 9 keys from start=1, but only 6 precede the query's own; pass blocks=2"),
    ],
)
def test_a_bad_line_of_token_ids_is_refused_with_its_number(read, line, message):
    with pytest.raises(PromptFileError, match=rf"prompts\.jsonl, line 3: .*{message}"):
        read(IDS, "", line)


def test_files_of_other_programs(read, tmp_path, tokenizer):
    (plain,) = read(MARKED, name="p.txt")
    for content in (b"\xef\xbb\xbf" + MARKED.encode(), MARKED.encode() + b"\r\n", b"\r" + MARKED.encode() + b"\r"):
        (tmp_path / "p.txt").write_bytes(content)
        (found,) = read_prompts(tmp_path / "p.txt", tokenizer)
        assert found.input_ids.tolist() == plain.input_ids.tolist()
    for content, message in (
        (b"\n" + MARKED.encode("utf-16"), "line 2: this line is not UTF-8; save the file in UTF-8"),
        (b" \n\n", "p.txt holds no prompt; write one a line, with"),
    ):
        (tmp_path / "p.txt").write_bytes(content)
        with pytest.raises(PromptFileError, match=message):
            read_prompts(tmp_path / "p.txt", tokenizer)


def test_a_tokenizer_without_offsets_asks_for_token_ids():
    slow = type("Slow", (), {"is_fast": False, "__len__": lambda self: 97})()
    with pytest.raises(ValueError, match=r"does not say which characters .* pass token ids instead"):
        read_marked_text(MARKED, slow)


def test_prompts_that_a_tokenizer_refuses_leave_no_folder(model, tmp_path, capsys):
    (tmp_path / "q.txt").write_text("[[Ann likes.]] [[Bob likes blue.]] Bob")
    assert main(["profile", model, "--out", str(tmp_path / "new"), "--input", str(tmp_path / "q.txt")]) == 1
    assert "q.txt, line 1: blocks must have equally many tokens" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
