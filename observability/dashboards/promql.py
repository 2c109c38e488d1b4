"""The forms of queries that the dashboards use."""

RECENT = "5m"


def total_rate(counter: str, *, by: str = "") -> str:
    """Return the increase per second over all replicas."""
    return f"sum by ({by}) (rate({counter}[$__rate_interval]))"


def recent_increase(counter: str, *, by: str = "", window: str = RECENT) -> str:
    """Return the increase in a window over all replicas, for what happens seldom.

    A counter has no series before its first increase, and `increase` does not see that one. A series that was not there
    before the window is counted from 0. So is everything for one window after Prometheus was started.
    """
    bare = counter.partition("{")[0]
    return f"sum by ({by}) (({counter} unless {bare} offset {window}) or increase({counter}[{window}]))"


def quantile(share: float, histogram: str, *, by: str = "", where: str = "") -> str:
    """Return a quantile of the observations of all replicas."""
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share:g}, sum by ({labels}) (rate({histogram}_bucket{where}[$__rate_interval])))"


def recent_quantile(share: float, histogram: str, *, by: str) -> str:
    """Return a quantile of the observations of the last minutes, for what happens seldom."""
    return f"histogram_quantile({share:g}, {recent_increase(histogram + '_bucket', by=f'le, {by}')})"


def mean(histogram: str) -> str:
    """Return the mean of the observations of all replicas; nothing while there are none."""
    return f"{total_rate(histogram + '_sum')} / ({total_rate(histogram + '_count')} > 0)"


def largest(gauge: str, *, by: str = "") -> str:
    """Return the greatest value of all replicas, for gauges of which each replica exports the total."""
    return f"max by ({by}) ({gauge})"


def share(part: str, whole: str, *, by: str = "") -> str:
    """Return the part of a counter's increase; 0 while only the whole increases, nothing while neither does."""
    all_of_them = total_rate(whole, by=by)
    return f"({total_rate(part, by=by)} or 0 * {all_of_them}) / ({all_of_them} > 0)"
