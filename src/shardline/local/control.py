"""The control API over HTTP, for tests in other processes and languages.

POST /_shardline/clock/advance        {"seconds": 300}
POST /_shardline/faults/add           {"kind": "throttle", "operation": "GetRecords", "times": 3}
POST /_shardline/faults/release       ends every hang that is under way
POST /_shardline/faults/clear
POST /_shardline/limits               {"enabled": true}
POST /_shardline/settings             {"status_delay_ms": 500, "empty_page_every": 3}
POST /_shardline/kinesis/reshard      {"StreamName": "a", "TargetShardCount": 4}; also ON_DEMAND
POST /_shardline/dynamodb/<operation> an operation of `Tables`
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from shardline.local.refusals import Refusal
from shardline.local.replay import CLOCK
from shardline.local.server import decode_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shardline.local.clock import Clock
    from shardline.local.journal import Journal
    from shardline.local.kinesis.account import Account
    from shardline.local.refusals import Backend


class _FaultRequest(msgspec.Struct, forbid_unknown_fields=True):
    kind: str
    operation: str | None = None
    shard_id: str | None = None
    times: int | None = 1
    probability: float = 1.0
    seconds: float | None = None
    reshards: int = 1


class Control:
    """Request handler of the control API."""

    def __init__(
        self,
        clock: Clock,
        account: Account,
        backends: Mapping[str, Backend],
        journal: Journal | None = None,
    ) -> None:
        self._clock = clock
        self._account = account
        self._backends = backends
        self._journal = journal

    async def answer(self, request: web.Request) -> web.Response:
        """Handle one control call. The answer to an invalid call has status 400 and one line."""
        path = request.match_info["path"]
        try:
            answer = self._execute(path, decode_object(await request.read()))
            if self._journal is not None:
                await self._journal.flushed()
        except Refusal as refusal:
            body = {"error": f"{refusal.name}: {refusal.message}"}
            return web.Response(status=400, body=msgspec.json.encode(body))
        except (ValueError, TypeError, KeyError) as error:
            body = {"error": f"{path}: {type(error).__name__}: {error}"}
            return web.Response(status=400, body=msgspec.json.encode(body))
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")

    def _execute(self, path: str, request: dict[str, Any]) -> dict[str, Any]:
        faults, limits, settings = (
            self._account.faults,
            self._account.limits,
            self._account.settings,
        )
        match path.split("/"):
            case ["clock", "advance"]:
                self._clock.advance(float(request["seconds"]))
                if self._journal is not None:
                    self._journal.append(self._clock.now_ms(), CLOCK, None)
                return {"now_ms": self._clock.now_ms()}
            case ["faults", "add"]:
                fault: Any = msgspec.to_builtins(msgspec.convert(request, _FaultRequest))
                faults.add(**fault)
            case ["faults", "release"]:
                faults.release()
            case ["faults", "clear"]:
                faults.clear()
            case ["limits"]:
                limits.enabled = bool(request["enabled"])
            case ["settings"]:
                settings.status_delay_ms = int(
                    request.get("status_delay_ms", settings.status_delay_ms)
                )
                settings.empty_page_every = int(
                    request.get("empty_page_every", settings.empty_page_every)
                )
            case [service, operation] if hasattr(self._backends.get(service), "control"):
                backend: Any = self._backends[service]
                answer: dict[str, Any] = backend.control(operation, request, self._clock.now_ms())
                return answer
            case _:
                raise Refusal("UnknownOperationException", f"there is no control call {path!r}")
        return {}
