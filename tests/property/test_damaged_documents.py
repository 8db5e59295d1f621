"""Offsets, tokens, checkpoints and rows that were damaged: one line of ours, whatever is wrong."""

from __future__ import annotations

import pytest

from tests.property.document_cases import READERS, outcome

SEEDS = 3_000


@pytest.mark.parametrize("kind", READERS)
def test_a_damaged_document_is_read_or_refused_in_one_line(kind: str) -> None:
    write, read = READERS[kind]
    assert read(write())
    refused = 0
    for seed in range(SEEDS):
        try:
            refused += not outcome(kind, seed)
        except Exception as error:
            pytest.fail(f"seed {seed}: {type(error).__name__}: {error}")
    assert refused > SEEDS / 4
