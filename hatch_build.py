"""Makes the text that an index of packages shows from README.md, when the package is built.

A link to a file of the repository leads nowhere on such a page, and a picture shows nothing: of these links the words
stay, and the pictures go. Links to headings and to other sites stay as they are.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_PICTURE = re.compile(r"!\[[^\]]*\]\((?!https?:)[^)]*\)(?:\n\n)?")
_LINK = re.compile(r"(?<!!)\[(?P<words>[^\]]*)\]\((?!https?:|#|mailto:)[^)]*\)")


def description(readme: str) -> str:
    """The text of the README without links and pictures that lead into the repository."""
    parts = _FENCED.split(readme)
    parts[::2] = [_LINK.sub(r"\g<words>", _PICTURE.sub("", part)) for part in parts[::2]]
    return "".join(parts)


class ReadmeHook(MetadataHookInterface):  # type: ignore[misc]
    """Gives the long description to the build."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = description((Path(self.root) / "README.md").read_text(encoding="utf-8"))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
