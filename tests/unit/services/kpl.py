"""Writes aggregated records as the Kinesis Producer Library does, by an encoder of its own.

`AWS_DIGESTS` are of what AWS's own aggregator for Python writes for the same user records, so that
the encoder here is held to it. To compute them again, in an environment of its own:

    pip install aws-kinesis-agg==1.2.3 six && python -m tests.unit.services.kpl
"""

from __future__ import annotations

import hashlib
import sys
from typing import NamedTuple

MAGIC = b"\xf3\x89\x9a\xc2"
SIZES = (0, 1, 2, 126, 127, 128, 129, 300, 16_383, 16_384, 16_385, 100_000, 1_000_000)
"""Around every border of a varint, up to the size of a record."""


class UserRecord(NamedTuple):
    """What a producer hands in."""

    key: str
    data: bytes
    hash_key: str | None = None


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def numbered(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def sized(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


def signed(message: bytes, digest: bytes | None = None) -> bytes:
    """Return a message between the magic bytes and its MD5."""
    check = hashlib.md5(message, usedforsecurity=False).digest() if digest is None else digest
    return MAGIC + message + check


def aggregate(records: list[UserRecord], digest: bytes | None = None) -> bytes:
    """Write an aggregated record."""
    keys = list(dict.fromkeys(record.key for record in records))
    hash_keys = list(dict.fromkeys(r.hash_key for r in records if r.hash_key is not None))
    message = b"".join(sized(1, key.encode()) for key in keys)
    message += b"".join(sized(2, number.encode()) for number in hash_keys)
    key_places = {key: place for place, key in enumerate(keys)}
    hash_places = {number: place for place, number in enumerate(hash_keys)}
    parts = [message]
    for record in records:
        inner = numbered(1, key_places[record.key])
        if record.hash_key is not None:
            inner += numbered(2, hash_places[record.hash_key])
        parts.append(sized(3, inner + sized(3, record.data)))
    return signed(b"".join(parts), digest)


def hash_key(key: str) -> str:
    return str(int.from_bytes(hashlib.md5(key.encode(), usedforsecurity=False).digest()))


def samples() -> dict[str, list[UserRecord]]:
    """Return user records that cross every border of a varint: in data, keys, tables, totals."""

    def record(key: str, size: int) -> UserRecord:
        return UserRecord(key, (key.encode() * (size + 1))[:size], hash_key(key))

    found = {f"data of {size}": [record("a", size), record("b", 1)] for size in SIZES}
    for size in (1, 126, 127, 128, 129, 255, 256):
        found[f"keys of {size}"] = [record("k" * size, 10), record("ж" * size, 10)]
    for count in (127, 128, 129, 16_383, 16_384, 16_385):
        found[f"{count} keys"] = [record(f"key-{n}", n % 3) for n in range(count)]
    found["one key often"] = [record("same", 200) for _ in range(1_000)]
    return found


def digest_of(record: bytes) -> str:
    return hashlib.sha256(record).hexdigest()[:16]


AWS_DIGESTS: dict[str, str] = {
    "data of 0": "db6bdddcf25739af",
    "data of 1": "fcb0a23b99c6cef8",
    "data of 2": "44a71de6220ccb8f",
    "data of 126": "454a874aed4abd58",
    "data of 127": "77f8bc0601f0a229",
    "data of 128": "fea8127f823bfbce",
    "data of 129": "c2a94e888ba89e7a",
    "data of 300": "64db17007851c608",
    "data of 16383": "581228d16b0d96d3",
    "data of 16384": "5aa62698b5a78641",
    "data of 16385": "a8dfe7fc9b19a20f",
    "data of 100000": "7be9c467dabf04f4",
    "data of 1000000": "bc5dc2aeca44de60",
    "keys of 1": "c13733f9122504c6",
    "keys of 126": "2cd2a8745a85e7b5",
    "keys of 127": "c3f5768f2bfe2ccb",
    "keys of 128": "baf0daf648ee6567",
    "keys of 129": "6fcaf49b50d987d4",
    "keys of 255": "da440d8053254236",
    "keys of 256": "114e964e28e51532",
    "127 keys": "1de02f335dfdfcb2",
    "128 keys": "b2ecdae010fd60ca",
    "129 keys": "9dff4b349e29e557",
    "16383 keys": "8997036a59d24bc2",
    "16384 keys": "9bbf9c5d74f0a7b0",
    "16385 keys": "1d03d8dfb366db24",
    "one key often": "de54d045846209be",
}


def main() -> None:
    """Print what AWS's aggregator writes."""
    from aws_kinesis_agg.aggregator import AggRecord

    for name, records in samples().items():
        aggregated = AggRecord(max_size=1 << 30)
        for record in records:
            if not aggregated.add_user_record(record.key, record.data, record.hash_key):
                raise RuntimeError(f"{name}: does not fit")
        _, _, contents = aggregated.get_contents()
        sys.stdout.write(f'    "{name}": "{digest_of(contents)}",\n')


if __name__ == "__main__":
    main()
