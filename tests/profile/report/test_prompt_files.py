import json

import pytest
from saved_models import WORDS, save_model

from posym_profile.report._prompt_files import (
    BlockedPrompt,
    PromptFileError,
    join_prompts,
    read_marked_text,
    read_prompts,
    write_prompts,
)

MARKED = "[[Ann likes red.]] [[Bob likes blue.]] Bob likes"
IDS = {"input_ids": [1, 3, 4, 5, 3, 4, 6, 3], "start": 1, "block_length": 3}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    from posym_profile.language_models._loading import load_tokenizer

    return load_tokenizer(str(save_model(tmp_path_factory.mktemp("model"))))


@pytest.fixture
def read(tmp_path, tokenizer):
    def read(*lines, tokenizer=tokenizer):
        written = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        (tmp_path / "prompts.jsonl").write_text("\n".join(written) + "\n", encoding="utf-8")
        return read_prompts(tmp_path / "prompts.jsonl", tokenizer)

    return read


def test_blocks_of_text_become_blocks_of_tokens(tokenizer):
    prompt = read_marked_text(MARKED, tokenizer, id="1")
    words = [WORDS[token] for token in prompt.input_ids]
    assert words == ["<s>", "Ann", "likes", "red", ".", "Bob", "likes", "blue", ".", "Bob", "likes"]
    assert (prompt.start, prompt.block_length, prompt.blocks, prompt.id) == (1, 4, 2, "1")


def test_text_may_stand_before_the_blocks(tokenizer):
    prompt = read_marked_text("and so " + MARKED, tokenizer, id="a")
    assert (prompt.start, prompt.block_length, prompt.blocks, prompt.id) == (3, 4, 2, "a")


def test_lines_of_token_ids_and_of_different_shapes(read):
    first, second = read(IDS, "", IDS | {"blocks": 2, "start": 0, "id": 7})
    assert first == BlockedPrompt(**IDS | {"input_ids": tuple(IDS["input_ids"])}, blocks=2, id="1")
    assert (second.start, second.id) == (0, "7")
    assert first.shape != second.shape


def test_what_is_written_is_read_again(read, tokenizer, tmp_path):
    prompts = [*read(IDS), read_marked_text(MARKED, tokenizer, id="b")]
    (tmp_path / "again.jsonl").write_bytes(write_prompts(prompts))
    assert read_prompts(tmp_path / "again.jsonl", tokenizer) == prompts


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r'must be one JSON object, but .* at column \d+; write \{"input_ids"'),
        ("[1, 2]", "must be a JSON object with 'input_ids'"),
        ({"text": "a"}, "must be a JSON object with 'input_ids'"),
        (IDS | {"lenght": 3}, "unknown 'lenght'; remove it"),
        (IDS | {"id": [1]}, r"'id' must be text that can be printed, or a whole number; got \[1\]"),
        (IDS | {"id": "1"}, "'id' '1' is that of line 1 already; give it another"),
        (IDS | {"input_ids": [1, 2]}, "'input_ids' must be a list of at least 3 whole numbers"),
        (IDS | {"input_ids": [True, 1, 2, 3]}, "'input_ids' must be a list of at least 3 whole numbers"),
        (IDS | {"input_ids": [*IDS["input_ids"], 97]}, "'input_ids' must lie between 0 and 96 for this model; got 97"),
        (IDS | {"answer_ids": [3]}, "'answer_ids' must be a list of at least 2 whole numbers"),
        (IDS | {"answer_ids": [3, 3]}, "'answer_ids' must be different tokens"),
        (IDS | {"answer_ids": [3, 4], "target": 2}, "'target' must be a place in 'answer_ids', of which there are 2"),
        (IDS | {"answer_ids": [3, 4]}, "it has answers, unlike the prompt of line 1"),
        ({"input_ids": [1, 2, 3], "start": 0}, "'block_length' is missing"),
        (IDS | {"start": -1}, "start must be a whole number of at least 0; got -1"),
        (IDS | {"block_length": "3"}, "block_length must be a whole number of at least 1; got '3'"),
        (IDS | {"blocks": 1}, r"blocks must be a whole number of at least 2 \(.*\); got 1"),
        (IDS | {"blocks": 3}, "blocks cover 9 keys from start=1, but only 6 precede the query's own; pass blocks=2"),
    ],
)
def test_a_bad_line_is_refused_with_its_number_and_the_way_out(read, line, message):
    with pytest.raises(PromptFileError, match=rf"prompts\.jsonl, line 3: .*{message}"):
        read(IDS, "", line)


def test_a_byte_order_mark_is_no_part_of_the_first_line(read):
    assert read("\ufeff" + json.dumps(IDS), IDS)[0] == read(IDS)[0]
    with pytest.raises(PromptFileError, match="line 2: a line must be one JSON object"):
        read(IDS, "\ufeff" + json.dumps(IDS))


def test_files_that_hold_nothing_or_are_no_text(read, tmp_path, tokenizer):
    with pytest.raises(PromptFileError, match="holds no prompt; write"):
        read("", "  ")
    (tmp_path / "binary").write_bytes(b'{"text": "\xff"}\n')
    with pytest.raises(PromptFileError, match="line 1: this line is not UTF-8; save the file in UTF-8"):
        read_prompts(tmp_path / "binary", tokenizer)
    with pytest.raises(FileNotFoundError):
        read_prompts(tmp_path / "nowhere", tokenizer)


def test_a_tokenizer_without_offsets_asks_for_token_ids():
    slow = type("Slow", (), {"is_fast": False, "__len__": lambda self: 97})()
    with pytest.raises(ValueError, match=r"does not say which characters .* pass token ids instead"):
        read_marked_text(MARKED, slow, id="1")


def test_prompts_of_different_shapes_are_no_batch(read):
    several = read(IDS, IDS | {"input_ids": [*IDS["input_ids"], 3], "blocks": 2, "id": "longer"})
    with pytest.raises(
        ValueError, match=r"got 2 prompts of 2 shapes .*\(8, 1, 3, 2, 0\), .*\. Join those of one shape"
    ):
        join_prompts(several)
    with pytest.raises(ValueError, match=r"a batch needs a prompt, .* got 0 prompts of 0 shapes"):
        join_prompts([])
