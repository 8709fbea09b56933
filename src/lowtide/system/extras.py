"""Packages that only a part of Lowtide needs: the extras of its own package, imported when that part is first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from lowtide.errors import UsageError


def require(package: str, extra: str | None, purpose: str) -> Any:
    """The module ``package``, or a UsageError that says which extra brings it; without one, it is installed by itself.

    >>> require("json", "arrow", "tables").loads("[1]")
    [1]
    """
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package.partition(".")[0]:
            raise  # it is there, but something that it needs itself is not
        wanted = package if extra is None else f"'lowtide[{extra}]'"
        raise UsageError(
            f"{purpose} needs the package {package}, which is not installed: pip install {wanted}"
        ) from error
