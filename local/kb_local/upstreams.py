"""Services behind the gateway."""

from typing import Final, Literal, get_args

GatewayUpstream = Literal["kb-api", "kb-search", "kb-knowledge", "kb-console"]
UPSTREAMS: Final[tuple[GatewayUpstream, ...]] = get_args(GatewayUpstream)
