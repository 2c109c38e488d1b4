from collections.abc import Sequence
from typing import Final

from observability.dashboards.overview import SEARCHES
from observability.dashboards.panel import Dashboard, Panel, PanelQuery, PanelRow
from observability.dashboards.promql import mean, quantile, recent_increase, share, total_rate

WITHOUT_ANSWER: Final[Sequence[Panel]] = (
    Panel(
        title="Searches answered with 5xx",
        description=(
            "Share of the requests to search. High: http.failed in the logs of kb-search names the problem. Often the"
            " embedding provider or a search index is the cause."
        ),
        unit="percentunit",
        queries=[
            PanelQuery(
                expr=share(
                    f'kb_http_requests_total{{{SEARCHES},status=~"5.."}}', f"kb_http_requests_total{{{SEARCHES}}}"
                ),
                legend="5xx",
            )
        ],
        alerts=["KbSearchAvailabilityBudgetBurn"],
    ),
    Panel(
        title="Searches by outcome",
        description=(
            "Searches a second. degraded: answered by the text index alone, because the provider gave no vector."
            " unavailable: answered with 503. refused: the request is wrong. failed: an unexpected error."
        ),
        unit="reqps",
        queries=[PanelQuery(expr=total_rate("kb_search_requests_total", by="outcome"), legend="{{outcome}}")],
        alerts=["KbSearchAvailabilityBudgetBurn", "KbProviderFailing"],
    ),
    Panel(
        title="Duration of a search",
        description=(
            "Seconds until a search is answered, with the embedding of its query. The objective is that 95 % take less"
            " than 0.5 s. High: see the stages below."
        ),
        unit="s",
        queries=[
            PanelQuery(expr=quantile(q, "kb_search_seconds", where='{stage="total"}'), legend=f"{q * 100:g} %")
            for q in (0.5, 0.95, 0.99)
        ],
        alerts=["KbSearchLatencyBudgetBurn"],
        threshold=0.5,
    ),
)

SEARCH: Final[Sequence[Panel]] = (
    Panel(
        title="Duration of each stage",
        description=(
            "95 % of the searches pass a stage within these seconds. High embed: the provider. High vector or text: the"
            " search nodes. High read: MongoDB."
        ),
        unit="s",
        queries=[
            PanelQuery(
                expr=quantile(0.95, "kb_search_seconds", by="stage", where='{stage!="total"}'), legend="{{stage}}"
            )
        ],
        alerts=["KbMongoSlow"],
        threshold=1,
    ),
    Panel(
        title="Results of a search",
        description=(
            "Mean number of results, and share of searches without any. Many without results: look at the queries, or"
            " at their filters."
        ),
        unit="short",
        queries=[
            PanelQuery(
                expr=mean("kb_search_results_count"),
                legend="results",
            ),
            PanelQuery(
                expr=share('kb_search_results_count_bucket{le="0.0"}', "kb_search_results_count_count"),
                legend="share without results",
            ),
        ],
    ),
    Panel(
        title="Wait in the fair queue",
        description=(
            "Seconds that requests waited for other requests of their organization; 95 % waited less. High: one"
            " organization sends more than its share, or the service needs more replicas."
        ),
        unit="s",
        queries=[PanelQuery(expr=quantile(0.95, "kb_http_queue_seconds", by="job"), legend="{{job}}")],
    ),
    Panel(
        title="Filters that were refused",
        description=(
            "In 5 minutes, by reason. Rising: a client has a bug, or somebody tries to read other organizations' data."
            " http.refused in the logs has the requests."
        ),
        unit="short",
        queries=[PanelQuery(expr=recent_increase("kb_search_filter_rejected_total", by="reason"), legend="{{reason}}")],
    ),
    Panel(
        title="Searches that began again",
        description=(
            "In 5 minutes, because their API key or knowledge base had changed meanwhile. Many: somebody changes keys"
            " or knowledge bases all the time."
        ),
        unit="short",
        queries=[PanelQuery(expr=recent_increase("kb_search_restarts_total"), legend="searches")],
    ),
    Panel(
        title="Requests without a valid key",
        description=(
            "In 5 minutes. Rising: a client has an old key, or somebody guesses keys. authentication.failures_limited"
            " in the logs names the address."
        ),
        unit="short",
        queries=[
            PanelQuery(
                expr=recent_increase("kb_authentication_failures_total", by="job, outcome"),
                legend="{{job}} {{outcome}}",
            )
        ],
    ),
)

RUNS: Final[Sequence[Panel]] = (
    Panel(
        title="Runs by status",
        description=(
            "Runs of chat models in 5 minutes. failed: the provider or a tool failed, see GET .../runs. lost: the"
            " process ended before the run did."
        ),
        unit="short",
        queries=[PanelQuery(expr=recent_increase("kb_runs_total", by="status"), legend="{{status}}")],
        alerts=["KbChatProviderFailing"],
    ),
    Panel(
        title="Duration of a run",
        description=(
            "Seconds of a whole run with its searches; 95 % are shorter. High: see the answers of the chat models"
            " beside it, and the number of answers in one run."
        ),
        unit="s",
        queries=[PanelQuery(expr=quantile(0.95, "kb_run_seconds"), legend="95 %")],
    ),
    Panel(
        title="Answers of the model in one run",
        description=(
            "95 % of the runs need no more answers than this, those that only call tools included. Near the limit of"
            " the agent: its tools or its prompt don't fit the questions."
        ),
        unit="short",
        queries=[PanelQuery(expr=quantile(0.95, "kb_run_iterations"), legend="95 %")],
    ),
    Panel(
        title="Answers of chat models",
        description="Calls a second by status class, repeats included. Many 429: ask the provider for higher limits.",
        unit="reqps",
        queries=[
            PanelQuery(
                expr=total_rate("kb_chat_calls_total", by="model, status_class"), legend="{{model}} {{status_class}}"
            )
        ],
        alerts=["KbChatProviderFailing", "KbProviderRateLimited"],
    ),
    Panel(
        title="Duration of an answer",
        description=(
            "Seconds a chat model took for one whole answer; 95 % are shorter. High: ask the provider, or shorten the"
            " prompts."
        ),
        unit="s",
        queries=[PanelQuery(expr=quantile(0.95, "kb_chat_request_seconds", by="model"), legend="{{model}}")],
    ),
    Panel(
        title="Tokens of chat models",
        description=(
            "Tokens a second as the providers report them. Prompts grow with the number and the size of the passages"
            " that a run reads."
        ),
        unit="short",
        queries=[PanelQuery(expr=total_rate("kb_chat_tokens_total", by="model, kind"), legend="{{model}} {{kind}}")],
    ),
)

HTTP: Final[Sequence[Panel]] = (
    Panel(
        title="Requests",
        description="HTTP requests a second of each service by status class, without those of probes and Prometheus.",
        unit="reqps",
        queries=[
            PanelQuery(
                expr=(
                    "sum by (job, class) (label_replace(rate("
                    'kb_http_requests_total{route!~"/healthz|/readyz|/metrics"}[$__rate_interval]'
                    '), "class", "${1}xx", "status", "(.).*"))'
                ),
                legend="{{job}} {{class}}",
            )
        ],
        alerts=["KbHttpErrors"],
        width=12,
    ),
    Panel(
        title="Slowest routes",
        description=(
            "The five routes of which 95 % of the requests take longest. Those of runs wait for chat models. High for"
            " others: look at MongoDB."
        ),
        unit="s",
        queries=[
            PanelQuery(
                expr=f"topk(5, {quantile(0.95, 'kb_http_request_seconds', by='job, method, route')} > 0)",
                legend="{{job}} {{method}} {{route}}",
            )
        ],
        width=12,
    ),
)

SEARCH_AND_RUNS: Final = Dashboard(
    uid="kb-search",
    title="4 Search and runs",
    question="Do searches and runs of chat models get answers, and which part of them is slow?",
    rows=[
        PanelRow(title="What users notice", panels=WITHOUT_ANSWER),
        PanelRow(title="Searches", panels=SEARCH),
        PanelRow(title="Runs of chat models", panels=RUNS),
        PanelRow(title="HTTP", panels=HTTP),
    ],
)
