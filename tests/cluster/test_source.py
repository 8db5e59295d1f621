"""The source's tests again, with executors that share neither memory nor process with the driver.

What they prove is said where they are written; kills on a cluster are among the kills.
"""

from tests.spark.test_consumers import test_a_consumer_through_splits_and_merges
from tests.spark.test_dynamodb_streams import (
    test_images_are_the_service_s_own_json_and_deletes_say_by_whom,
    test_order_through_branching_shards_and_a_restart,
)
from tests.spark.test_resharding import (
    test_splits_and_merges_while_away,
    test_splits_and_merges_while_reading,
)
from tests.spark.test_source import (
    test_a_bounded_read_is_in_order_through_a_reshard,
    test_a_query_goes_on_where_the_token_of_a_stream_stands,
    test_aggregated_records_are_taken_apart_unless_told_not_to,
    test_available_now_ends_while_the_stream_reshards_and_goes_on,
    test_columns_and_a_batch_read_three_times,
    test_lag_and_lineage_are_told_of_every_batch,
    test_latest_on_a_quiet_stream_stopped_written_to_and_begun_again,
    test_once_reads_everything_that_was_there,
)
