"""What the site has beside the pages of docs/: changelog, guide for contributors, benchmark report and examples.

Links that leave docs/ lead to those pages; a link to anything else of the repository becomes plain text.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
ADDED = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "bench/results/README.md": "report/index.md",
    "examples/README.md": "examples/index.md",
}
"""Pages of the repository, and where the site has them."""
PICTURES = {f"bench/results/{path.name}": f"report/{path.name}" for path in (ROOT / "bench/results").glob("*.svg")}

_LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    for source, page in (*ADDED.items(), *PICTURES.items()):
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    here = page.file.src_uri
    source = next((each for each, added in ADDED.items() if added == here), f"docs/{here}")
    return _LINK.sub(lambda link: _rewritten(link, source, here), markdown)


def _rewritten(link: re.Match[str], source: str, here: str) -> str:
    """The link as the site needs it, which stands in ``source`` of the repository and on the page ``here``."""
    target = link["target"]
    if re.match(r"[a-z]+:", target):
        return link[0]
    whole = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    page = ADDED.get(whole) or PICTURES.get(whole) or (whole[5:] if whole.startswith("docs/") else None)
    if page is None:
        return link["text"]
    relative = posixpath.relpath(page, posixpath.dirname(here) or ".")
    return f"{link['picture']}[{link['text']}]({relative}{link['anchor'] or ''})"
