"""What other servers get wrong, or cannot show: (server, test) -> reason.

Each entry is expected strictly: when the server is mended, its entry has to go.
"""

from __future__ import annotations

from typing import Final

_OPENS_ANYTHING: Final = "gives an iterator for a DynamoDB shard that never was"
_LOSES_PARENTS: Final = "a split or merged shard vanishes at once, and its records with it"

DEFECTS: Final[dict[tuple[str, str], str]] = {
    (
        "kinesalite",
        "test_the_last_page_of_a_closed_shard_names_its_children",
    ): "sends no ChildShards",
    (
        "kinesis_mock",
        "test_the_ending_number_is_a_bound_that_nothing_may_rely_on",
    ): "EndingSequenceNumber is always 9223372036854775807, below every record's number",
    (
        "kinesis_mock",
        "test_an_iterator_that_never_was_is_refused",
    ): "answers a bad iterator with a 500",
    (
        "kinesis_mock",
        "test_a_number_that_is_not_of_this_stream_is_refused",
    ): "takes any digits for a sequence number",
    **{
        ("ministack", test): _LOSES_PARENTS
        for test in (
            "test_a_split_opens_two_children_in_the_place_of_their_parent",
            "test_a_merge_opens_one_child_of_both_parents",
            "test_a_closed_shard_still_has_its_records_and_then_ends",
            "test_an_empty_closed_shard_ends",
            "test_after_its_last_record_a_closed_shard_ends",
            "test_the_ending_number_is_a_bound_that_nothing_may_rely_on",
            "test_the_end_is_sticky",
            "test_the_last_page_of_a_closed_shard_names_its_children",
        )
    },
    ("ministack", "test_a_listing_has_every_page"): "refuses its own NextToken",
    (
        "ministack",
        "test_an_iterator_that_never_was_is_refused",
    ): "calls an iterator that never was expired",
    (
        "ministack",
        "test_a_number_that_is_not_of_this_stream_is_refused",
    ): "takes any digits for a sequence number",
    ("ministack", "test_a_shard_of_a_table_can_be_asked_for"): _OPENS_ANYTHING,
    ("ministack", "test_what_is_not_there_or_cannot_be_is_said"): _OPENS_ANYTHING,
}
