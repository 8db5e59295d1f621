"""Literals are found wherever they stand, however they overlap and repeat themselves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shardline.services.wire.spans import places_of_each

FEW = st.sampled_from([b"a", b"b", b"ab"])
LITERALS = st.lists(FEW, min_size=2, max_size=9).map(b"".join)


def found_one_by_one(body: bytes, literal: bytes, begin: int) -> list[int]:
    last = len(body) - len(literal)
    return [place for place in range(begin, last + 1) if body.startswith(literal, place)]


@given(st.lists(LITERALS, min_size=1, max_size=3), st.lists(FEW).map(b"".join), st.data())
def test_every_place_is_found_and_no_other(
    literals: list[bytes], filling: bytes, data: st.DataObject
) -> None:
    body = filling + literals[0] + filling[::-1] + literals[-1]
    begin = data.draw(st.integers(0, len(body)))
    found = places_of_each(body, literals, begin)
    expected = [found_one_by_one(body, literal, begin) for literal in literals]
    assert [places.tolist() for places in found] == expected
