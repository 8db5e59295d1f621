"""Where secrets are in a command line."""

from __future__ import annotations

import pytest

from shardline.secret_arguments import secret_spans


@pytest.mark.parametrize(
    ("argument", "shown"),
    [
        ("postgresql://ann:hush@db/orders", "postgresql://******************"),
        ("postgresql://ann:hu/s@h@db:5432/orders", "postgresql://*************************"),
        (
            "--lease-table=postgresql:///orders?password=hush",
            "--lease-table=postgresql://" + 21 * "*",
        ),
        ("postgresql+psycopg://:hush@", "postgresql+psycopg://******"),
        ("--token=hush", "--token=****"),
        ("--token\0hush", "--token\0****"),
        ("kinesis://orders", "kinesis://orders"),
        ("sqlite:///leases.db", "sqlite:///leases.db"),
        ("arn:aws:kinesis:eu-west-1:1:stream/orders", "arn:aws:kinesis:eu-west-1:1:stream/orders"),
    ],
)
def test_passwords_and_tokens_are_found_in_every_form(argument: str, shown: str) -> None:
    line = bytearray(f"shardline\0run\0{argument}\0--tasks\0002\0".encode())
    for begin, end in secret_spans(bytes(line)):
        line[begin:end] = b"*" * (end - begin)
    assert line.decode() == f"shardline\0run\0{shown}\0--tasks\0002\0"
