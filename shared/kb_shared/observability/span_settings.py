"""Reads the standard variables of OpenTelemetry that say whether and how spans are exported.

The variables of the OTLP exporter itself, and of the resource, are read by OpenTelemetry's packages.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from kb_shared.errors import Misconfigured
from kb_shared.observability.sampling import Sampler

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_SAMPLERS: Final = ("always_on", "always_off", "traceidratio")
_PARENT_BASED: Final = "parentbased_"
_PROTOCOL: Final = "http/protobuf"


@dataclass(frozen=True, slots=True)
class SpanSettings:
    """Settings of the sampler, and of the queue between the service and the exporter."""

    max_queued: int = 2_048
    """Number of finished spans that wait for the exporter. Further ones are dropped."""
    max_batch: int = 512
    delay_s: float = 5.0
    """Longest time that a finished span waits."""
    sampler: Sampler = field(default_factory=Sampler)


_DEFAULTS: Final = SpanSettings()


def read_span_settings(environment: Mapping[str, str]) -> SpanSettings | None:
    """Return the settings; None if spans are not exported, because no endpoint is set or they are turned off.

    Raises:
        Misconfigured: a value that this service does not support.
    """
    endpoint = _first(environment, ENDPOINTS)
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"
    is_disabled = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if endpoint is None or exporter == "none" or is_disabled:
        return None
    if exporter != "otlp":
        raise Misconfigured(f"OTEL_TRACES_EXPORTER={exporter} is not supported: use otlp or none")
    _check_endpoint(endpoint)
    protocol = _first(environment, PROTOCOLS) or _PROTOCOL
    if protocol != _PROTOCOL:
        raise Misconfigured(
            f"OTEL_EXPORTER_OTLP_PROTOCOL={protocol} is not supported: use {_PROTOCOL}, which collectors accept on port"
            " 4318"
        )
    max_queued = int(_read_number(environment, "OTEL_BSP_MAX_QUEUE_SIZE", _DEFAULTS.max_queued))
    return SpanSettings(
        max_queued=max_queued,
        max_batch=min(
            max_queued, int(_read_number(environment, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", _DEFAULTS.max_batch))
        ),
        delay_s=_read_number(environment, "OTEL_BSP_SCHEDULE_DELAY", _DEFAULTS.delay_s * 1000) / 1000,
        sampler=_read_sampler(environment),
    )


def _first(environment: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((value for name in names if (value := environment.get(name, "").strip())), None)


def _check_endpoint(endpoint: str) -> None:
    # The value is not repeated: it may contain a password.
    try:
        parts = urlsplit(endpoint)
        is_usable = parts.scheme in {"http", "https"} and parts.hostname is not None
    except ValueError:
        is_usable = False
    if not is_usable:
        raise Misconfigured(
            "OTEL_EXPORTER_OTLP_ENDPOINT is not a URL: it has the form http://collector:4318 or https://..."
        )


def _read_sampler(environment: Mapping[str, str]) -> Sampler:
    given = environment.get("OTEL_TRACES_SAMPLER", "").strip() or "parentbased_always_on"
    name = given.removeprefix(_PARENT_BASED)
    if name not in _SAMPLERS:
        known = ", ".join(prefix + each for prefix in ("", _PARENT_BASED) for each in _SAMPLERS)
        raise Misconfigured(f"OTEL_TRACES_SAMPLER={given} is unknown: use one of {known}")
    share = {"always_on": 1.0, "always_off": 0.0}.get(name)
    if share is None:
        share = _read_number(environment, "OTEL_TRACES_SAMPLER_ARG", 1.0, may_be_zero=True)
    if share > 1:
        raise Misconfigured("OTEL_TRACES_SAMPLER_ARG is the share of traces to record, from 0 to 1")
    return Sampler(share, follows_caller=given.startswith(_PARENT_BASED))


def _read_number(environment: Mapping[str, str], name: str, default: float, *, may_be_zero: bool = False) -> float:
    given = environment.get(name, "").strip()
    try:
        number = float(given) if given else default
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf") or (number < 1 and not may_be_zero):
        raise Misconfigured(f"{name}={given} is not a usable number")
    return number
