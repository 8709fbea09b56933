"""Optional packages, which Lowtide's extras install. Each is imported when the part that needs it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from lowtide.errors import UsageError


def require(package: str, extra: str | None, purpose: str) -> Any:
    """Import ``package``, or raise a UsageError that names the extra to install, or the package if it has no extra.

    >>> require("json", "arrow", "tables").loads("[1]")
    [1]
    """
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package.partition(".")[0]:
            raise  # it is installed, but one of its own dependencies is not
        wanted = package if extra is None else f"'lowtide[{extra}]'"
        raise UsageError(
            f"{purpose} needs the package {package}, which is not installed: pip install {wanted}"
        ) from error
