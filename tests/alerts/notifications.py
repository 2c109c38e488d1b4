"""Receives what Alertmanager sends to people."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


@dataclass(frozen=True, slots=True)
class Notification:
    """One alert of a message."""

    alert: str
    is_firing: bool
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    at: float
    """Time at which it came, by the monotonic clock."""


@dataclass(slots=True)
class NotificationLog:
    """Everything that came, in order."""

    received: list[Notification] = field(default_factory=list)

    def since(self, at: float) -> list[Notification]:
        return [each for each in self.received if each.at >= at]

    async def receive(self, request: Request) -> Response:
        for alert in json.loads(await request.body())["alerts"]:
            labels = alert["labels"]
            firing = alert["status"] == "firing"
            self.received.append(Notification(labels["alertname"], firing, labels, alert["annotations"], monotonic()))
        return Response()

    @property
    def app(self) -> Starlette:
        return Starlette(routes=[Route("/", self.receive, methods=["POST"])])
