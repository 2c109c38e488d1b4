from collections.abc import Sequence
from typing import Final

from observability.dashboards.panel import Dashboard, Panel, PanelQuery, PanelRow
from observability.dashboards.promql import largest, quantile, recent_increase, total_rate

WAITING: Final[Sequence[Panel]] = (
    Panel(
        title="Oldest run that waits",
        description=(
            "Seconds for which the oldest run or preview of a source has waited for a runner. Minutes: all runners are"
            " busy, or none works. Start more."
        ),
        unit="s",
        queries=[PanelQuery(expr="max(kb_source_oldest_waiting_seconds)", legend="oldest")],
        alerts=["KbSourceRunsWaiting"],
        threshold=300,
        kind="number",
    ),
    Panel(
        title="Runs that have not ended",
        description=(
            "Runs and previews of sources of all organizations. Each runner works on KB_SOURCE_RUNS_AT_ONCE of them;"
            " the number of runners follows this figure."
        ),
        unit="short",
        queries=[PanelQuery(expr=largest("kb_source_runs_open", by="state"), legend="{{state}}")],
        alerts=["KbSourceRunsWaiting"],
    ),
    Panel(
        title="Age of the oldest outcome that was not read",
        description=(
            "Seconds since the oldest record of kb-events that kb-knowledge has not handled. High: entries show an old"
            " embedding_status; searches find them all the same."
        ),
        unit="s",
        queries=[
            PanelQuery(
                expr='max(kb_consumer_lag_seconds{group=~".*kb-knowledge-outcomes"})',
                legend="oldest",
                zero_reason="the consumer keeps up, and its lag is measured once in ten seconds",
            )
        ],
        alerts=["KbOutcomesLag"],
        threshold=900,
    ),
)

RUNS: Final[Sequence[Panel]] = (
    Panel(
        title="Runs by outcome",
        description=(
            "Runs of sources in an hour, without previews. partial: a limit, a cancellation or single items left"
            " something out. error: nothing was read. Many errors of all organizations: the runner does not reach the"
            " internet."
        ),
        unit="short",
        queries=[
            PanelQuery(
                expr=recent_increase('kb_source_runs_total{trigger!="preview"}', by="kind, outcome", window="1h"),
                legend="{{kind}} {{outcome}}",
            )
        ],
        alerts=["KbSourceRunsFailing"],
    ),
    Panel(
        title="Previews by outcome",
        description="Previews of sources in an hour. Someone waits for each of them, for up to ten seconds.",
        unit="short",
        queries=[
            PanelQuery(
                expr=recent_increase('kb_source_runs_total{trigger="preview"}', by="outcome", window="1h"),
                legend="{{outcome}}",
            )
        ],
    ),
    Panel(
        title="Duration of a run",
        description=(
            "Seconds of a run by kind of the source; 95 % are shorter. Near KB_SOURCE_RUN_MAX_S: servers are slow, or"
            " robots.txt asks for long pauses."
        ),
        unit="s",
        queries=[PanelQuery(expr=quantile(0.95, "kb_source_run_seconds", by="kind"), legend="{{kind}}")],
    ),
    Panel(
        title="Items by outcome",
        description=(
            "Pages, files and resources a second that were read. unchanged: they cost nothing. Many failed: see the"
            " messages of the runs."
        ),
        unit="short",
        queries=[PanelQuery(expr=total_rate("kb_source_items_total", by="outcome"), legend="{{outcome}}")],
        alerts=["KbSourceRunsFailing"],
    ),
    Panel(
        title="Bytes read",
        description="Bytes a second of the items that were read. A run reads at most KB_SOURCE_RUN_MAX_BYTES.",
        unit="Bps",
        queries=[PanelQuery(expr=total_rate("kb_source_bytes_total"), legend="bytes")],
    ),
    Panel(
        title="Runs that another runner continued",
        description=(
            "In an hour. Some at each update. Others: runners die or lose MongoDB; look at their memory and their logs."
        ),
        unit="short",
        queries=[PanelQuery(expr=recent_increase("kb_source_runs_continued_total", window="1h"), legend="runs")],
    ),
    Panel(
        title="Addresses that were refused",
        description=(
            "In an hour, before anything was sent. form: a port, a scheme or credentials that no source may have."
            " not_public: the name leads into a private network, or nowhere. Rising: somebody tries to reach our own"
            " network. source.address_refused in the logs names the organization."
        ),
        unit="short",
        queries=[
            PanelQuery(
                expr=recent_increase("kb_source_addresses_refused_total", by="job, reason", window="1h"),
                legend="{{job}} {{reason}}",
            )
        ],
    ),
)

ENTRIES: Final[Sequence[Panel]] = (
    Panel(
        title="What became of changes of entries",
        description=(
            "In an hour. ready: searches find it. waiting: an attempt failed and is repeated. error: it failed."
            " outdated: the entry had changed again. Many errors: see embedding_error of the entries."
        ),
        unit="short",
        queries=[
            PanelQuery(expr=recent_increase("kb_entry_outcomes_total", by="outcome", window="1h"), legend="{{outcome}}")
        ],
        alerts=["KbOutcomesLag"],
    ),
    Panel(
        title="Imported items",
        description=(
            "Items of imports in an hour. unchanged: they were there already. Many skipped: an importer sends items"
            " that can't be stored; their reasons are in the answers to it."
        ),
        unit="short",
        queries=[
            PanelQuery(expr=recent_increase("kb_import_items_total", by="outcome", window="1h"), legend="{{outcome}}")
        ],
    ),
    Panel(
        title="Texts that models turned into knowledge",
        description=(
            "In an hour. proposed: the answer can be imported. invalid: no answer could be used. Many invalid: name"
            " another model in KB_CHAT_MODEL."
        ),
        unit="short",
        queries=[
            PanelQuery(expr=recent_increase("kb_check_ins_total", by="outcome", window="1h"), legend="{{outcome}}")
        ],
        alerts=["KbChatProviderFailing"],
    ),
    Panel(
        title="Refused contents",
        description=(
            "Texts in an hour that were refused because they contain a credential, by the kind of it. Many of one kind:"
            " tell the organization; if the texts are harmless, the check is wrong."
        ),
        unit="short",
        queries=[
            PanelQuery(
                expr=recent_increase("kb_content_refused_total", by="pattern", window="1h"), legend="{{pattern}}"
            )
        ],
    ),
)

CURATED_KNOWLEDGE: Final = Dashboard(
    uid="kb-curated-knowledge",
    title="8 Curated knowledge",
    question="Are sources read, and do entries that people and sources write become searchable?",
    rows=[
        PanelRow(title="What waits", panels=WAITING),
        PanelRow(title="Runs of sources", panels=RUNS),
        PanelRow(title="Entries", panels=ENTRIES),
    ],
)
