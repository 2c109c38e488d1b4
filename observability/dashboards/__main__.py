"""`python -m observability.dashboards`: write the JSON of all dashboards for Grafana."""

import argparse
from pathlib import Path

from observability.dashboards.all_dashboards import DASHBOARDS
from observability.dashboards.grafana import RUNBOOKS, to_json

FOLDER = Path(__file__).parents[1] / "grafana" / "dashboards"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m observability.dashboards", description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where to write the files")
    parser.add_argument(
        "--runbooks",
        default=RUNBOOKS,
        help="address at which your repository shows docs/runbooks; panels with an alert link to it",
    )
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for dashboard in DASHBOARDS:
        (arguments.folder / f"{dashboard.uid}.json").write_text(to_json(dashboard, runbooks=arguments.runbooks))


if __name__ == "__main__":
    main()
