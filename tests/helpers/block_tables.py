"""Tables of block sums as tests ask for them: of tensors and a layout in one call."""

from posym_core.metrics import BlockLayout, Heads, tabulate_blocks


def make_block_table(query, keys, angles, *, start=0, block_length=1, blocks=None, **options):
    heads = Heads(query=query, keys=keys, angles=angles, **options)
    return tabulate_blocks(heads, BlockLayout(start=start, block_length=block_length, blocks=blocks))
