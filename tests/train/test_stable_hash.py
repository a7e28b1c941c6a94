"""Hashes of texts: of their bytes alone, wherever they lie; spread evenly; ties of an order settled by the texts."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tilewright.train.stable_hash import Spans, digest_of, distinct_order, hashes_of, keys_of, mixed

TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), max_size=20)


def array(texts: list[str]) -> pa.Array:
    return pa.array(texts, pa.large_string())


@given(TEXTS, st.integers(0, 5))
def test_a_hash_depends_on_the_text_alone(texts: list[str], cut: int) -> None:
    """Not on its neighbours, the slice it is in, or whether all are of one length."""
    whole = hashes_of(array(texts))
    alone = [int(hashes_of(array([text]))[0]) for text in texts]
    assert whole.tolist() == alone and hashes_of(array(texts)[cut:]).tolist() == alone[cut:]
    assert len(set(alone)) == len(set(texts))


def test_hashes_are_written_down() -> None:
    """A change would change the batches of a run that is resumed."""
    assert hashes_of(array(["", "a", "0123456789abcdef-0001-00"])).tolist() == [
        16294208416658607535,
        6774081908283191102,
        13393717082152655813,
    ]
    assert keys_of(hashes_of(array(["a"])), 3, "x").tolist() == [18162691419315899598]


@given(st.lists(st.text("ab\x01é", max_size=9), min_size=1, max_size=9))
def test_fixed_width_rows_hash_as_their_texts(texts: list[str]) -> None:
    fixed = Spans.of_fixed(np.array([text.encode() for text in texts], "|S28"))
    assert fixed.hashes().tolist() == hashes_of(array(texts)).tolist()
    rows = np.arange(len(texts))
    assert fixed.equal(rows, Spans.of_texts(array(texts)), rows).all()
    assert fixed.equal(rows, Spans.of_texts(array(texts[::-1])), rows).tolist() == [
        a == b for a, b in zip(texts, texts[::-1], strict=True)
    ]


def test_bits_are_spread_evenly() -> None:
    """Of 20,000 like texts each bit is set in half, give or take (5 sigma), and neighbours differ in about half."""
    hashes = hashes_of(array([f"{number:016x}-0000-00" for number in range(20_000)]))
    bits = np.unpackbits(hashes.view(np.uint8).reshape(-1, 8), axis=1)
    assert np.abs(bits.mean(0) - 0.5).max() < 5 * 0.5 / np.sqrt(20_000)
    assert abs((bits[1:] != bits[:-1]).mean() - 0.5) < 0.005
    assert len(np.unique(hashes)) == 20_000 == len(np.unique(mixed(hashes)))


@given(st.lists(st.sampled_from("abcdefgh"), max_size=12), st.permutations(range(12)))
def test_order_and_repeats(texts: list[str], shuffle: list[int]) -> None:
    """Under hashes that collide, too: the order of the texts is the same for any order of the rows."""
    for modulus in (1, 2, 2**63):
        hashes = hashes_of(array(texts)) % np.uint64(modulus)
        order, repeats = distinct_order(array(texts), hashes)
        assert sorted(order.tolist()) == list(range(len(texts)))
        assert len(repeats) == len(texts) - len(set(texts))
        assert all(a < b and texts[a] == texts[b] for a, b in repeats)
        others = [texts[place] for place in shuffle if place < len(texts)]
        other_order, _ = distinct_order(array(others), hashes_of(array(others)) % np.uint64(modulus))
        assert [texts[row] for row in order] == [others[row] for row in other_order]
        values = [int(hashes[row]) for row in order]
        assert all(a <= b for a, b in pairwise(values))


def test_digests_depend_on_all_parts() -> None:
    assert len({digest_of(1, "a"), digest_of(1, "b"), digest_of(2, "a"), digest_of("1a"), digest_of(1, "a", "")}) == 5
