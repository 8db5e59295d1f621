"""The control API over HTTP, for tests in other processes and languages. All bodies are JSON.

POST /_shardline/clock/advance        {"seconds": 300}
POST /_shardline/faults/add           {"kind": "throttle", "operation": "GetRecords", "times": 3}
POST /_shardline/faults/release       ends every hang that is under way
POST /_shardline/faults/clear
POST /_shardline/limits               {"enabled": true}
POST /_shardline/settings             {"status_delay_ms": 500, "empty_page_every": 3}
POST /_shardline/kinesis/reshard      {"StreamName": "a", "TargetShardCount": 4}; also ON_DEMAND
POST /_shardline/kinesis/reads        {"StreamName": "a"}; what was read since the last such call
POST /_shardline/dynamodb/<operation> an operation of `Tables`
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from aiohttp import web

from shardline.local.faults import FaultKind  # noqa: TC001 - msgspec reads it
from shardline.local.protocol import decode_object, read_body
from shardline.local.refusals import Refusal
from shardline.local.replay import CLOCK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shardline.local.admission import Admission
    from shardline.local.backend import Backend
    from shardline.local.clock import Clock
    from shardline.local.journal import Journal
    from shardline.local.kinesis.account import Account


class _Advance(msgspec.Struct, forbid_unknown_fields=True):
    seconds: float


class _FaultRequest(msgspec.Struct, forbid_unknown_fields=True):
    kind: FaultKind
    operation: Annotated[str, msgspec.Meta(max_length=128)] | None = None
    shard_id: Annotated[str, msgspec.Meta(max_length=128)] | None = None
    times: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = 1
    probability: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    seconds: Annotated[float, msgspec.Meta(ge=0, le=86_400)] | None = None
    reshards: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 1
    after: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0


class _LimitsRequest(msgspec.Struct, forbid_unknown_fields=True):
    enabled: bool


_OneIn = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class _SettingsRequest(msgspec.Struct, forbid_unknown_fields=True):
    status_delay_ms: Annotated[int, msgspec.Meta(ge=0, le=3_600_000)] | None = None
    shard_limit: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    empty_page_every: _OneIn | None = None
    stale_listing_one_in: _OneIn | None = None
    cut_answer_one_in: _OneIn | None = None


class _NoParameters(msgspec.Struct, forbid_unknown_fields=True):
    pass


class Control:
    """Request handler of the control API."""

    def __init__(
        self,
        clock: Clock,
        account: Account,
        backends: Mapping[str, Backend],
        admission: Admission,
        journal: Journal | None = None,
    ) -> None:
        self._admission = admission
        self._clock = clock
        self._account = account
        self._backends = backends
        self._journal = journal

    async def answer(self, http: web.Request) -> web.Response:
        """Handle one control call. The answer to an invalid call has one line that says why."""
        path = http.match_info["path"]
        not_admitted = self._admission.refusal(http.headers.get("Host"), http.headers.get("Origin"))
        if not_admitted is not None:
            return _failure(403, not_admitted)
        # A page of another site can send text/plain without asking the server first.
        if http.content_type != "application/json":
            return _failure(415, "send Content-Type: application/json")
        try:
            answer = self._execute(path, decode_object(await read_body(http) or b"{}"))
            if self._journal is not None:
                await self._journal.flushed()
        except Refusal as refusal:
            return _failure(400, f"{path}: {refusal}")
        except (ValueError, msgspec.MsgspecError) as error:
            return _failure(400, f"{path}: {error}")
        return web.json_response(body=msgspec.json.encode(answer))

    def _execute(self, path: str, request: dict[str, Any]) -> dict[str, Any]:
        faults, limits = self._account.faults, self._account.limits
        match path.split("/"):
            case ["clock", "advance"]:
                self._clock.advance(msgspec.convert(request, _Advance).seconds)
                if self._journal is not None:
                    self._journal.append(self._clock.now_ms(), CLOCK, None)
                return {"now_ms": self._clock.now_ms()}
            case ["faults", "add"]:
                faults.add(**msgspec.structs.asdict(msgspec.convert(request, _FaultRequest)))
            case ["faults", "release"]:
                msgspec.convert(request, _NoParameters)
                faults.release()
            case ["faults", "clear"]:
                msgspec.convert(request, _NoParameters)
                faults.clear()
            case ["limits"]:
                limits.enabled = msgspec.convert(request, _LimitsRequest).enabled
            case ["settings"]:
                changes = msgspec.structs.asdict(msgspec.convert(request, _SettingsRequest))
                for name, value in changes.items():
                    if value is not None:
                        setattr(self._account.settings, name, value)
            case [service, operation] if service in self._backends:
                backend = self._backends[service]
                return backend.control(operation, request, self._clock.now_ms())
            case _:
                raise Refusal("UnknownOperationException", "there is no such control call")
        return {}


def _failure(status: int, message: str) -> web.Response:
    body = msgspec.json.encode({"error": message.replace("\n", " ")})
    return web.Response(status=status, body=body, content_type="application/json")
