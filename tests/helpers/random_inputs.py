"""Random inputs, good and bad, for the tests that end in ``numbers that are right, or a stated refusal``.

``make test`` tries some inputs for each function, the same at every run. ``make fuzz`` tries thousands, others each
time: ``POSYM_FUZZ_EXAMPLES`` is their number. A failing input is printed as code that repeats it.
"""

from __future__ import annotations

import math
import os

import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

ASKED = os.environ.get("POSYM_FUZZ_EXAMPLES")
cases = settings(
    max_examples=int(ASKED or 30),
    derandomize=ASKED is None,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
PAIRINGS = st.sampled_from(["halves", "neighbours"])
DTYPES = st.sampled_from(["float32", "float64"])
KINDS = st.sampled_from(["everyday", "finite", "bad"])
# What is refused is refused with one of these, and in words that a person wrote.
REFUSALS = (ValueError, TypeError)
RULES = ("must", "need", "cover", "precede", "hold", "allow", "do not", "defined", "there are")
# Exponents and squares at the ends of float64 and float32, ties and signed zeros.
EDGES = [0.0, -0.0, 1.0, -1.0, 1e-45, 1e-30, -1e-8, 1e8, 1e15, -1e19, 1e30, 3e38]
WIDE_EDGES = [*EDGES, 5e-324, 1e-310, -1e-200, 1e77, 1e150, -1e200, 1.7e308]
BROKEN = [math.nan, math.inf, -math.inf]
POSITIVE = st.one_of(st.sampled_from([5e-324, 1e-300, 1e-8, 1.0, 1e300, math.inf]), st.floats(1e-6, 10))


def entries(dtype, kind):
    """Numbers of everyday size, any that are finite, or some that are not."""
    width = 32 if dtype == "float32" else 64
    everyday = st.floats(-4, 4, width=width)
    if kind == "everyday":
        return everyday
    edges = st.sampled_from(EDGES if dtype == "float32" else WIDE_EDGES)
    finite = st.one_of(everyday, edges, st.floats(allow_nan=False, allow_infinity=False, width=width))
    return finite if kind == "finite" else st.one_of(everyday, st.sampled_from(BROKEN))


@st.composite
def tensors(draw, shape, kind="everyday", dtype="float64"):
    return torch.from_numpy(draw(arrays(dtype, shape, elements=entries(dtype, kind))))


@st.composite
def heads(draw, kind="everyday", most_keys=6):
    """A query, keys and angles that fit, and the options that every function of them takes."""
    planes, keys, dtype = draw(st.integers(1, 3)), draw(st.integers(1, most_keys)), draw(DTYPES)
    angles = st.one_of(st.sampled_from([0.0, 1.0, math.pi, math.pi / 2, 1e-4]), st.floats(-4, 4))
    if kind == "finite":
        angles = st.one_of(angles, st.sampled_from([1e10, -1e100, 1.7e308]))
    scales = st.one_of(st.sampled_from([1.0, 0.5, 0.0, -1.0]), st.floats(-2, 2))
    if kind != "everyday":
        scales = st.one_of(scales, st.sampled_from([1e-300, 1e200] if kind == "finite" else BROKEN))
    return (
        (
            draw(tensors(2 * planes, kind, dtype)),
            draw(tensors((keys, 2 * planes), kind, dtype)),
            torch.from_numpy(draw(arrays("float64", planes, elements=angles))),
        ),
        {"scale": draw(scales), "pairing": draw(PAIRINGS)},
    )


def attempt(function, *args, **options):
    """What a function returns, or None after a refusal, which must say something of its own."""
    try:
        return function(*args, **options)
    except REFUSALS as refusal:
        text = str(refusal)
        assert any(word in text for word in RULES), text
        return None


def whole(*found):
    """No number is NaN or infinite."""
    assert all(bool(torch.isfinite(torch.as_tensor(x)).all()) for x in found)


def broken(*inputs):
    """Whether a number is NaN or infinite. Those of Python are no float32, which ends sooner."""
    wide = (x if isinstance(x, torch.Tensor) else torch.tensor(x, dtype=torch.float64) for x in inputs)
    return not all(bool(torch.isfinite(x).all()) for x in wide)


def size(args, options):
    """A bound of the logits, by which rounding is judged."""
    query, keys, _ = (x.double() for x in args)
    return float(query.abs().sum() * keys.abs().amax()) * max(abs(options["scale"]), 1e-3) + 1e-3


def wide(args):
    return tuple(x.double() for x in args)


def rounding(args):
    return 1e-5 if args[1].dtype == torch.float32 else 1e-12
