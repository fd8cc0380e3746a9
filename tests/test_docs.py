"""The Python blocks of the pages about environments run as they are written, page by page, from top to bottom."""

import re
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parent.parent / "docs" / "envs").glob("*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "page"}
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        exec(compile(block, str(page), "exec"), namespace)


def test_every_link_between_pages_leads_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+\.md)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
