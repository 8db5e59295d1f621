"""Bugs of tokens and of the merge, for `planted_bugs.py`: ids, what, path, right, wrong, test."""

from __future__ import annotations

from typing import Final

_TOKENS: Final = "tests/unit/streams/test_tokens.py"
_MERGER: Final = "tests/unit/streams/test_merger.py"

TOKEN_BUGS: Final = (
    (
        "T-01", "a closed shard is drained while its records are still buffered",
        "streams/merger.py",
        "        if delivered == len(self._run):\n",
        "        if True:\n",
        f"{_TOKENS} -k buffered_records",
    ),
    (
        "T-01", "a token leaves out what of its run was not returned yet",
        "streams/stream.py",
        "        self._merger.record_delivered(returned)\n",
        "        self._merger.record_delivered(len(self._run))\n",
        f"{_TOKENS} -k any_step",
    ),
    (
        "O-22", "a token of latest believes one empty page",
        "streams/merger.py",
        "found.newest if buffer.told_tip else found.certain",
        "found.newest",
        f"{_TOKENS} -k every_page_since",
    ),
    (
        "T-02", "the token of a time means the beginning of the shard",
        "streams/tokens.py",
        '"position": position_to_json(place.position)}',
        '"position": position_to_json('
        "TRIM_HORIZON if isinstance(place.position, AtTime) else place.position)}",
        f"{_TOKENS} -k after_a_move",
    ),
    (
        "T-03", "every heartbeat reads every shard",
        "streams/merger.py",
        "        now = self._clock()\n        if now < self._beat_at:\n            return\n",
        "        self._fetch_now(b for b in self._buffers.values() if b.idle)\n        return\n"
        "        now = self._clock()\n",
        "tests/unit/streams/test_merger_heartbeat.py -k twelve_minutes",
    ),
    (
        "T-04", "a child is read beside its parent",
        "streams/merger.py",
        "        for shard in lineage.readable:\n",
        "        for shard in self.ledger.listed:\n",
        f"{_MERGER} -k clock_is_behind",
    ),
    (
        "T-05", "a record that is stamped before its predecessor overtakes it",
        "core/merging.py",
        "    raised: NDArray[np.int64] = np.maximum.accumulate(times)\n",
        "    raised: NDArray[np.int64] = times\n",
        f"{_MERGER} tests/unit/core/test_merging.py",
    ),
    (
        "T-06", "only what is fetched is merged: nobody waits for the next page of another shard",
        "core/merging.py",
        "    holding = [backlog for backlog in backlogs if backlog.holds]\n",
        "    holding: list[Backlog] = []\n",
        f"{_MERGER} -k merged_before",
    ),
    (
        "T-07", "TRIM_HORIZON in capitals means latest",
        "streams/tokens.py",
        '        case str() if position.lower() == "trim_horizon":\n'
        "            return TRIM_HORIZON\n"
        '        case str() if position.lower() == "latest":\n',
        '        case str() if position == "trim_horizon":\n'
        "            return TRIM_HORIZON\n"
        '        case str() if position.isupper() or position == "latest":\n',
        "tests/unit/streams/test_stream.py",
    ),
    (
        "T-08", "a move keeps the run of before",
        "streams/stream.py",
        "        before.close()\n        self._run = []\n        self._rest = iter(self._run)\n",
        "        before.close()\n",
        _TOKENS,
    ),
    (
        "T-08", "a move keeps the places of before",
        "streams/stream.py",
        "            ledger = Ledger.starting_at(start, self._service.list_shards())\n",
        "            ledger = getattr(self, '_merger', None) and self._merger.ledger\n"
        "            ledger = ledger or Ledger.starting_at(start, self._service.list_shards())\n",
        f"{_TOKENS} -k moving_to_an_end",
    ),
    (
        "T-09", "a gap that was accepted is raised at every next",
        "streams/gaps.py",
        "        if not self._goes_on:\n",
        "        if self._failed is None:\n",
        "tests/unit/streams/test_gaps.py",
    ),
    (
        "T-09", "what expired in mid-stream is passed over without a gap",
        "streams/merger.py",
        "                    if fetched.gap is not None:\n",
        "                    if False:\n",
        "tests/unit/streams/test_gaps.py",
    ),
)  # fmt: skip
