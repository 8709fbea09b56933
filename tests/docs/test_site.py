"""docs/ builds as a site without warnings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.docs.documents import ROOT


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    pages = {str(page.parent.relative_to(tmp_path)) for page in tmp_path.rglob("index.html")}
    written = {str(page.relative_to(ROOT / "docs").with_suffix("")) for page in (ROOT / "docs").rglob("*.md")}
    assert written - {"index"} | {"report", "examples", "contributing", "changelog"} <= pages
