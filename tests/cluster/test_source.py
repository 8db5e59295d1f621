"""Some of the source's tests again, with executors that share nothing with the driver.

What they prove is said where they are written; kills on a cluster are among the kills.
"""

from tests.spark.test_dynamodb_streams import (
    test_images_are_the_service_s_own_json_and_deletes_say_by_whom,
    test_order_through_branching_shards_and_a_restart,
)
from tests.spark.test_resharding import (
    test_splits_and_merges_while_away,
    test_splits_and_merges_while_reading,
)
from tests.spark.test_source import test_a_bounded_read_is_in_order_through_a_reshard
