"""Decides which traces are recorded, as the samplers of OpenTelemetry do (`OTEL_TRACES_SAMPLER`)."""

from dataclasses import dataclass
from typing import Final

_LOW_64_BITS: Final = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Sampler:
    """Sampler of the traces that enter the process. The spans inside follow the first one."""

    share: float = 1.0
    """Share of the traces to record, from 0 to 1. All services choose the same ones, because the trace id decides."""
    follows_caller: bool = True
    """True if the decision of the caller counts, where there is one."""

    def is_sampled(self, trace_id: str, *, by_caller: bool | None) -> bool:
        """Decide about a trace; `by_caller` is the decision of the caller, None without a caller."""
        if self.follows_caller and by_caller is not None:
            return by_caller
        return int(trace_id, 16) & _LOW_64_BITS < round(self.share * 2**64)
