"""Results -> figures -> one HTML file that a person wants to look at, and the numbers as CSV.

write_report(Path("results"))    # reads results/<experiment>/, writes results/report.html
"""

from __future__ import annotations

from pathlib import Path

from driftbandits.checks import needed

__all__ = ["write_report"]


def write_report(directory: str | Path, *, title: str | None = None) -> Path:
    """Report on every experiment under a directory; the path of the page is returned.

    Beside the page it writes `figures/` (PNG and SVG) and `tables/` (CSV).
    """
    needed("Reports", "polars", "jinja2", "matplotlib", "plotly", extra="all")
    from driftbandits.report.page import write_page

    return write_page(Path(directory), title)
