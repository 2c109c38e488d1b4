from collections.abc import Sequence
from typing import Final

from observability.dashboards.panel import Dashboard, Panel, PanelQuery, PanelRow
from observability.dashboards.promql import recent_increase, total_rate

RIGHT: Final[Sequence[Panel]] = (
    Panel(
        title="SPUs charged and embeddings generated",
        description=(
            "Both a second. Each embedding that is generated and stored costs one SPU, so the lines lie on each other."
            " Apart: organizations pay too much or too little. The ledger in MongoDB is what is billed (GET /usage)."
        ),
        unit="short",
        queries=[
            PanelQuery(expr=total_rate("kb_embeddings_generated_total"), legend="embeddings generated"),
            PanelQuery(expr=total_rate("kb_spu_charged_total"), legend="SPUs charged"),
        ],
        alerts=["KbSpuMismatch"],
    ),
    Panel(
        title="Difference of SPUs and embeddings",
        description=(
            "Embeddings generated minus SPUs charged since each replica started, the greatest of all replicas. It is 0:"
            " both are counted after the same transaction. Anything else is a fault of this system."
        ),
        unit="short",
        queries=[
            PanelQuery(
                expr=(
                    "max(abs(sum by (job, instance) (kb_embeddings_generated_total)"
                    " - sum by (job, instance) (kb_spu_charged_total)))"
                ),
                legend="difference",
                zero_reason="no fault from outside makes the two counters of a replica differ",
            )
        ],
        alerts=["KbSpuMismatch"],
        threshold=1,
    ),
    Panel(
        title="Organizations whose spending differed from the ledger",
        description=(
            "Found by the last full pass of the reconciler, which has set the spending to the sum of the ledger. Above"
            " 0: budgets were enforced with a wrong figure until then. See drift.repaired in the logs."
        ),
        unit="short",
        queries=[PanelQuery(expr='max(kb_reconciler_drift{kind="spent_differs"})', legend="organizations")],
        alerts=["KbSpendingDiffers"],
        threshold=1,
    ),
)

SPENT: Final[Sequence[Panel]] = (
    Panel(
        title="SPUs of the last 24 hours",
        description=(
            "SPUs charged for indexing and for queries. Much more than yesterday: many new documents, or a chunker or a"
            " model was changed. GET /usage shows each organization."
        ),
        unit="short",
        queries=[
            PanelQuery(
                expr=recent_increase("kb_spu_charged_total", by="operation_type", window="1d"),
                legend="{{operation_type}}",
            )
        ],
        kind="number",
    ),
    Panel(
        title="SPUs by operation",
        description=(
            "SPUs a second. index: texts of documents. search: queries. A peak of index without new documents: a"
            " chunker or a model was changed, or the cache was lost."
        ),
        unit="short",
        queries=[PanelQuery(expr=total_rate("kb_spu_charged_total", by="operation_type"), legend="{{operation_type}}")],
    ),
    Panel(
        title="SPUs saved by the cache",
        description="Texts a second whose vector was in the embedding cache. Without it, each would have cost one SPU.",
        unit="short",
        queries=[PanelQuery(expr=total_rate("kb_embedding_cache_hits_total", by="model"), legend="{{model}}")],
    ),
)

PROVIDERS: Final[Sequence[Panel]] = (
    Panel(
        title="Calls that providers are paid for",
        description=(
            "Calls of embedding models an hour, repeated ones included. Many more than texts justify: see the panel"
            " Repeated calls of the dashboard Provider and cache."
        ),
        unit="short",
        queries=[
            PanelQuery(
                expr=f"{total_rate('kb_embedding_api_calls_total', by='model')} * 3600",
                legend="{{model}}",
            )
        ],
    ),
    Panel(
        title="Tokens of chat models",
        description=(
            "Tokens an hour that providers of chat models are paid for. Prompts grow with the number of passages that"
            " runs read. GET /usage shows the money of each organization, where the model has a price."
        ),
        unit="short",
        queries=[
            PanelQuery(
                expr=f"{total_rate('kb_chat_tokens_total', by='model, kind')} * 3600",
                legend="{{model}} {{kind}}",
            )
        ],
    ),
    Panel(
        title="Vectors paid for and lost",
        description=(
            "Vectors in a day that a provider computed and MongoDB did not store. They are not charged to anybody, but"
            " the provider is paid. Above 0: MongoDB refuses writes."
        ),
        unit="short",
        queries=[
            PanelQuery(expr=recent_increase("kb_embeddings_lost_total", by="model", window="1d"), legend="{{model}}")
        ],
        alerts=["KbEmbeddingsLost"],
        threshold=1,
    ),
)

SPUS_AND_MONEY: Final = Dashboard(
    uid="kb-money",
    title="5 SPUs and money",
    question="Is everything charged that was generated, and what do providers cost?",
    rows=[
        PanelRow(title="Are the charges right", panels=RIGHT),
        PanelRow(title="What organizations are charged", panels=SPENT),
        PanelRow(title="What providers are paid for", panels=PROVIDERS),
    ],
)
