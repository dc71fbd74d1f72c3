"""Write the notebooks from the pages beside this script, with small outputs: python docs/notebooks/make.py."""

from __future__ import annotations

from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

HERE = Path(__file__).parent
TIMEOUT_SECONDS = 300


def from_page(page: Path) -> NotebookNode:
    """Return the notebook that a page describes, without outputs; the same page gives the same notebook."""
    notebook: NotebookNode = jupytext.reads(page.read_text(), fmt="md")
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"]}
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = {}
    return notebook


def execute(notebook: NotebookNode, folder: Path) -> NotebookNode:
    """Run all cells in a fresh kernel; an error in one is raised."""
    client = NotebookClient(notebook, timeout=TIMEOUT_SECONDS, resources={"metadata": {"path": str(folder)}})
    client.execute(cwd=str(folder))
    for cell in notebook.cells:
        cell.metadata = {}  # when it ran is nobody's business
    return notebook


def main() -> None:
    """Write a notebook beside each page."""
    for page in sorted(HERE.glob("*.md")):
        notebook = execute(from_page(page), HERE)
        notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"]}
        nbformat.write(notebook, page.with_suffix(".ipynb"))  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
