"""The control API over HTTP, for tests in other processes and languages.

POST /_shardline/clock/advance        {"seconds": 300}
POST /_shardline/faults/add           {"kind": "throttle", "operation": "GetRecords", "times": 3}
POST /_shardline/faults/release       lets every call that hangs go on
POST /_shardline/faults/clear
POST /_shardline/limits               {"enabled": true}
POST /_shardline/settings             {"status_delay_ms": 500, "empty_page_every": 3}
POST /_shardline/kinesis/reshard      {"StreamName": "a", "TargetShardCount": 4}; also ON_DEMAND
POST /_shardline/dynamodb/<operation> goes to the DynamoDB Streams backend
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from shardline.local.refusals import Refusal
from shardline.local.restoring import CLOCK
from shardline.local.server import decode_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shardline.local.clock import Clock
    from shardline.local.journal import Journal
    from shardline.local.kinesis.account import Account
    from shardline.local.refusals import Backend


class _FaultAsked(msgspec.Struct, forbid_unknown_fields=True):
    kind: str
    operation: str | None = None
    shard_id: str | None = None
    times: int | None = 1
    probability: float = 1.0
    seconds: float | None = None
    reshards: int = 1


class Control:
    """Answers the control API."""

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
        """Answer one control call; what cannot be done is a 400 with one line."""
        path = request.match_info["path"]
        try:
            answer = self._carry_out(path, decode_object(await request.read()))
            if self._journal is not None:
                await self._journal.settled()
        except Refusal as refusal:
            said = {"error": f"{refusal.name}: {refusal.message}"}
            return web.Response(status=400, body=msgspec.json.encode(said))
        except (ValueError, TypeError, KeyError) as error:
            said = {"error": f"{path}: {type(error).__name__}: {error}"}
            return web.Response(status=400, body=msgspec.json.encode(said))
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")

    def _carry_out(self, path: str, asked: dict[str, Any]) -> dict[str, Any]:
        faults, limits, settings = (
            self._account.faults,
            self._account.limits,
            self._account.settings,
        )
        match path.split("/"):
            case ["clock", "advance"]:
                self._clock.advance(float(asked["seconds"]))
                if self._journal is not None:
                    self._journal.note(self._clock.now_ms(), CLOCK, None)
                return {"now_ms": self._clock.now_ms()}
            case ["faults", "add"]:
                fault: Any = msgspec.to_builtins(msgspec.convert(asked, _FaultAsked))
                faults.add(**fault)
            case ["faults", "release"]:
                faults.release()
            case ["faults", "clear"]:
                faults.clear()
            case ["limits"]:
                limits.enabled = bool(asked["enabled"])
            case ["settings"]:
                settings.status_delay_ms = int(
                    asked.get("status_delay_ms", settings.status_delay_ms)
                )
                settings.empty_page_every = int(
                    asked.get("empty_page_every", settings.empty_page_every)
                )
            case [service, operation] if hasattr(self._backends.get(service), "control"):
                backend: Any = self._backends[service]
                answer: dict[str, Any] = backend.control(operation, asked, self._clock.now_ms())
                return answer
            case _:
                raise Refusal("UnknownOperationException", f"no control is called {path!r}")
        return {}
