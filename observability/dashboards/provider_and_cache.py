from collections.abc import Sequence
from typing import Final

from observability.dashboards.panel import Dashboard, Panel, PanelQuery, PanelRow
from observability.dashboards.promql import largest, quantile, recent_increase, share, total_rate

FAILURES: Final[Sequence[Panel]] = (
    Panel(
        title="Failed calls of embedding models",
        description=(
            "Share of the calls without an answer that can be used. High: documents wait, and hybrid searches use the"
            " text index alone. Ask the provider, or see its status page."
        ),
        unit="percentunit",
        queries=[
            PanelQuery(
                expr=share(
                    'kb_provider_responses_total{status_class=~"5xx|timeout|bad_answer"}',
                    "kb_provider_responses_total",
                    by="model",
                ),
                legend="{{model}}",
            )
        ],
        alerts=["KbProviderFailing"],
        threshold=0.5,
    ),
    Panel(
        title="Calls answered with 429",
        description=(
            "Share of the calls of embedding models that the provider limits. High: ask for higher limits, lower the"
            " limits of the knowledge bases, or run fewer indexers."
        ),
        unit="percentunit",
        queries=[
            PanelQuery(
                expr=share(
                    'kb_provider_responses_total{status_class="429"}', "kb_provider_responses_total", by="model"
                ),
                legend="{{model}}",
            )
        ],
        alerts=["KbProviderRateLimited"],
        threshold=0.05,
    ),
    Panel(
        title="Open circuit breakers",
        description=(
            "Pairs of an organization and a model whose calls are stopped for now. outage: ask the provider. quota or"
            " key: circuit.opened in the logs names the organization, which has to act."
        ),
        unit="short",
        queries=[PanelQuery(expr=largest("kb_circuits_open", by="cause"), legend="{{cause}}")],
        alerts=["KbCircuitOpen"],
        threshold=1,
    ),
)

EMBEDDING: Final[Sequence[Panel]] = (
    Panel(
        title="Answers of embedding models",
        description="Calls a second by status class. Each batch of texts is one call; repeated calls are counted too.",
        unit="reqps",
        queries=[
            PanelQuery(
                expr=total_rate("kb_provider_responses_total", by="model, status_class"),
                legend="{{model}} {{status_class}}",
            )
        ],
        alerts=["KbProviderFailing"],
    ),
    Panel(
        title="Duration of a call",
        description="Seconds an embedding model took for a batch; 95 % are shorter. High: ask the provider.",
        unit="s",
        queries=[PanelQuery(expr=quantile(0.95, "kb_embedding_request_seconds", by="model"), legend="{{model}}")],
    ),
    Panel(
        title="Texts in a call",
        description=(
            "Vectors generated for each call. Low while many documents wait: they are small, or come one by one. The"
            " size of batches adapts to the latency of the provider."
        ),
        unit="short",
        queries=[
            PanelQuery(
                expr=(
                    f"{total_rate('kb_embeddings_generated_total', by='model')}"
                    f" / ({total_rate('kb_embedding_api_calls_total', by='model')} > 0)"
                ),
                legend="{{model}}",
            )
        ],
    ),
    Panel(
        title="Repeated calls",
        description=(
            "Calls of embedding and chat models in 5 minutes that were repeated, by the reason of the failure before."
            " Rising: see the same reason in the answers above."
        ),
        unit="short",
        queries=[
            PanelQuery(expr=recent_increase("kb_retries_total", by="model, reason"), legend="{{model}} {{reason}}")
        ],
        alerts=["KbProviderFailing", "KbProviderRateLimited"],
    ),
    Panel(
        title="Circuit breakers that opened",
        description=(
            "In an hour, by cause. Again and again: the calls that try whether the provider works again fail as well."
            " See circuit.opened in the logs."
        ),
        unit="short",
        queries=[
            PanelQuery(expr=recent_increase("kb_circuits_opened_total", by="cause", window="1h"), legend="{{cause}}")
        ],
        alerts=["KbCircuitOpen"],
    ),
    Panel(
        title="Vectors that were lost",
        description=(
            "Vectors in an hour that the provider computed and MongoDB did not store. No organization is charged, but"
            " the provider is paid. Above 0: MongoDB refuses writes."
        ),
        unit="short",
        queries=[
            PanelQuery(expr=recent_increase("kb_embeddings_lost_total", by="model", window="1h"), legend="{{model}}")
        ],
        alerts=["KbEmbeddingsLost"],
        threshold=1,
    ),
)

CACHE: Final[Sequence[Panel]] = (
    Panel(
        title="Texts found in the embedding cache",
        description=(
            "Share of the texts whose vector was in the cache, which costs nothing. It falls when many new documents"
            " arrive. Low for unchanged documents: a chunker or a model was changed."
        ),
        unit="percentunit",
        queries=[
            PanelQuery(
                expr=(
                    f"{total_rate('kb_embedding_cache_hits_total', by='model')}"
                    f" / ({total_rate('kb_embedding_cache_hits_total', by='model')}"
                    f" + {total_rate('kb_embedding_cache_misses_total', by='model')} > 0)"
                ),
                legend="{{model}}",
            )
        ],
    ),
    Panel(
        title="Hits and misses of the embedding cache",
        description="Texts a second. Each miss is a text that the provider had to embed.",
        unit="short",
        queries=[
            PanelQuery(expr=total_rate("kb_embedding_cache_hits_total", by="model"), legend="hits {{model}}"),
            PanelQuery(expr=total_rate("kb_embedding_cache_misses_total", by="model"), legend="misses {{model}}"),
        ],
    ),
    Panel(
        title="Vectors of queries found in the cache",
        description=(
            "Vectors a second that searches did not have to wait for, beside all searches. Far apart: queries are"
            " seldom repeated, and each new one waits for the provider."
        ),
        unit="reqps",
        queries=[
            PanelQuery(expr=total_rate("kb_search_query_vector_cache_hits_total"), legend="from the cache"),
            PanelQuery(expr=total_rate("kb_search_requests_total"), legend="searches"),
        ],
    ),
)

LIMITS: Final[Sequence[Panel]] = (
    Panel(
        title="Wait for rate limits",
        description=(
            "Seconds that calls waited for the limit of requests or tokens a minute of a knowledge base or a model; 95"
            " % are shorter. High: raise these limits, if the provider allows it."
        ),
        unit="s",
        queries=[PanelQuery(expr=quantile(0.95, "kb_ratelimit_wait_seconds", by="scope"), legend="{{scope}}")],
        width=12,
    ),
    Panel(
        title="Calls refused by rate limits",
        description=(
            "Calls in 5 minutes that would have waited too long. Steady: raise the limits of the knowledge base or the"
            " model."
        ),
        unit="short",
        queries=[PanelQuery(expr=recent_increase("kb_ratelimit_rejected_total", by="scope"), legend="{{scope}}")],
        width=12,
    ),
)

PROVIDER_AND_CACHE: Final = Dashboard(
    uid="kb-provider",
    title="3 Provider and cache",
    question="Is the embedding provider the limit, and how much does the cache save?",
    rows=[
        PanelRow(title="What fails", panels=FAILURES),
        PanelRow(title="Embedding models", panels=EMBEDDING),
        PanelRow(title="Caches", panels=CACHE),
        PanelRow(title="Rate limits of this system", panels=LIMITS),
    ],
)
