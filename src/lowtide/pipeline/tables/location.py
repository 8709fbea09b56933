"""Where an archive is: a directory, or a URI of any file system that Spark, pyarrow and delta-rs can all write to."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.fs

from lowtide.errors import UsageError

_SCHEMES = {"s3a": "s3", "s3n": "s3"}
"""What pyarrow and delta-rs call the file systems that Hadoop has other names for."""


@dataclass(frozen=True)
class Location:
    """A directory. ``uri`` is its absolute path, or its URI without a slash at the end."""

    uri: str

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> Location:
        """Return the location of a path or a URI."""
        text = os.fspath(path)
        if not text:
            raise UsageError("an archive is a directory or a URI, not an empty string")
        if text.startswith("file:"):
            text = unquote(re.sub("^file:/+", "/", text))
        scheme, separator, rest = text.partition("://")
        if not separator:
            return cls(os.path.abspath(text))
        return cls(f"{_SCHEMES.get(scheme, scheme)}://{rest.rstrip('/')}")

    @property
    def is_local(self) -> bool:
        return "://" not in self.uri

    def __truediv__(self, name: str) -> Location:
        return Location(f"{self.uri}/{name}")

    def child(self, name: str) -> Location:
        """Return the directory for something that users name."""
        return self / folder_name(name)

    @cached_property
    def _opened(self) -> tuple[pa.fs.FileSystem, str]:
        if self.is_local:
            return pa.fs.LocalFileSystem(), self.uri
        try:
            found: tuple[pa.fs.FileSystem, str] = pa.fs.FileSystem.from_uri(self.uri)
        except (pa.ArrowInvalid, OSError) as error:
            raise UsageError(
                f"cannot reach {self.uri}: {error}; give a directory, or a URI that pyarrow and delta-rs know"
            ) from error
        return found

    @property
    def files(self) -> pa.fs.FileSystem:
        """The file system."""
        return self._opened[0]

    @property
    def root(self) -> str:
        """The directory as the file system calls it."""
        return self._opened[1]

    def create(self) -> None:
        """Make the directory, readable by its owner alone if it is local."""
        if self.is_local:
            os.makedirs(self.uri, mode=0o700, exist_ok=True)
        else:
            self.files.create_dir(self.root, recursive=True)

    def names(self) -> list[str]:
        """Return the names in the directory, unquoted; none if there is no directory."""
        found = self.files.get_file_info(pa.fs.FileSelector(self.root, allow_not_found=True))
        return sorted(named_by(each.base_name) for each in found if each.type == pa.fs.FileType.Directory)

    def dataset(self, names: Iterable[str], schema: pa.Schema) -> Any:
        """Return Parquet files of the directory as a dataset of Arrow.

        Its file system is one of Arrow's own. That of delta-rs is written in Python, which Arrow's threads may still be
        in when the process ends: then the process is aborted, and its exit code lost.
        """
        paths = [f"{self.root}/{each}" for each in names]
        from pyarrow.dataset import dataset  # imports pandas, if that is installed; tasks do without

        return dataset(paths, schema=schema, filesystem=self.files, format="parquet")

    def spark_path(self, name: str) -> str:
        """Return the path of a file for Spark, which takes some characters for patterns."""
        root = f"file://{quote(self.uri)}" if self.is_local else self.uri
        return re.sub(r"([\\\[\]{}*?])", r"\\\1", f"{root}/{quote(name) if self.is_local else name}")


def folder_name(name: str) -> str:
    """Return a name as a directory can have it: anything that some file system or URI takes for more than a letter is
    written as ``~`` and its UTF-8 in hexadecimal.

    >>> folder_name("lowtide/collections")
    'lowtide~2Fcollections'
    """
    kept = re.sub(r"[^A-Za-z0-9_.-]", lambda found: "".join(f"~{each:02X}" for each in found[0].encode()), name)
    return re.sub(r"^\.", "~2E", kept)


def named_by(folder: str) -> str:
    """Return what a directory is named for.

    >>> named_by("caf~C3~A9")
    'caf\xe9'
    """
    return unquote(folder.replace("~", "%"))
