"""The dashboards of Grafana as code. `python -m observability.dashboards` writes their JSON."""
