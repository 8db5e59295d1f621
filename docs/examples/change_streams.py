"""A table whose changes are read as typed items: declare, bind, write, read, come back later."""

import json
import tempfile
import time
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import shardline


class User(shardline.Model):
    class Meta:
        table = "users"
        stream = {"include": ["new", "old"]}  # or ["keys"], ["new"], ["old"]

    id: uuid.UUID = shardline.key()
    email: str
    verified: bool = False


engine = shardline.Engine()  # region, endpoint and credentials as the AWS CLI finds them
engine.bind(User)

# Everything of the last 24 hours; "latest" is only what comes from now on.
stream = engine.stream(User, "trim_horizon")

user = User(id=uuid.uuid4(), email="user@domain.com")
engine.save(user)

change = None
while not change:
    change = next(stream)  # None when there is nothing now

if change["old"]:
    print("user {} updated from {}".format(change["new"], change["old"]))
else:
    print("new user {} created {}".format(change["new"], change["meta"]["created_at"]))

# A token is where the stream stands. It survives JSON, and a reshard in the meantime.
saved = Path(tempfile.gettempdir()) / f"stream-token-{user.id}"
saved.write_text(json.dumps(stream.token))
stream.close()

user.verified = True
engine.save(user)

stream = engine.stream(User, json.loads(saved.read_text()))
saved.unlink()
change = None
while not change:
    change = next(stream)
print("user {} updated from {}".format(change["new"], change["old"]))

stream.move_to(stream.token)  # stays where it is: nothing lost, nothing repeated
stream.move_to(datetime.now(UTC) - timedelta(hours=2))  # back in time
stream.move_to("trim_horizon")  # to the oldest change that is still kept

# Iterators expire after 15 minutes without a read. A consumer that is slow between two reads
# calls heartbeat, as often as it likes: a tight loop makes about one call in four hours a shard.
next_heartbeat = time.monotonic()
seen = 0
while seen < 2:
    change = next(stream)
    if change is not None:
        seen += 1
        print(change["meta"]["event"]["type"], change["key"])
    if time.monotonic() >= next_heartbeat:
        next_heartbeat = time.monotonic() + 12 * 60
        stream.heartbeat()

engine.delete(user)
while not (change := next(stream)):
    pass
print("user {} deleted, now {}".format(change["old"], change["new"]))
stream.close()
