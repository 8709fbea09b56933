"""Reads the TOML file that configures a store's pipeline: what is archived, where, how long it is kept, and when.

``read_config`` checks everything that can be checked before a run: each key, each value, whether the store and the
input files exist, and whether an output would overwrite something else. It raises one ConfigError that names every
problem. docs/pipeline.md has the table of keys.
"""

from __future__ import annotations

import glob
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lowtide.audit.levels import level_of
from lowtide.documents.catalog import check_collection_name
from lowtide.documents.schema import compile_schema
from lowtide.engine import MANIFEST, Isolation
from lowtide.errors import Error, UsageError, shown
from lowtide.pipeline.load.mapping import parse_mapping
from lowtide.pipeline.runs.toml_table import TomlTable
from lowtide.pipeline.travel.retention import Keep

COMPACT: Final = ("auto", "always", "never")
"""When a run compacts: where many small files have come together, everything each time, or not."""
POLICY: Final = "7d, hourly 30d, daily 1y, monthly"
LOAD_MODES: Final = ("upsert", "insert", "overwrite")


class ConfigError(UsageError):
    """A config file is wrong. ``problems`` has one line for each key that is; nothing has run. Fix the file."""

    def __init__(self, name: str, problems: list[str]) -> None:
        self.problems = tuple(problems)
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        super().__init__("\n  ".join([f"{name} has {count}, and nothing was run:", *problems]))


@dataclass(frozen=True)
class SparkConfig:
    """The session: its master, and Spark's settings."""

    master: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class AuditConfig:
    """The history to audit, and the level that it must keep."""

    history: str
    level: str = Isolation.SERIALIZABLE.name


@dataclass(frozen=True)
class LoadConfig:
    """A load that each run begins with, in the words of ``pipeline.load``."""

    source: str
    collection: str
    format: str | None = None
    mapping: Mapping[str, Any] | None = None
    schema: Mapping[str, Any] | None = None
    mode: str = "upsert"
    quarantine: str | None = None
    max_bad: int | float | None = None
    name: str | None = None
    version: int = 0
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PipelineConfig:
    """Everything that a run does. Paths are absolute, or URIs; ``every`` and ``grace`` are in seconds."""

    store: str
    archive: str
    collections: tuple[str, ...] | None = None
    every: float | None = None
    report: str | None = None
    metrics: str | None = None
    spark: SparkConfig = field(default_factory=SparkConfig)
    compact: str = "auto"
    keep: Keep | None = None
    grace: float | None = None
    audit: AuditConfig | None = None
    loads: tuple[LoadConfig, ...] = ()


def read_config(path: str | os.PathLike[str]) -> PipelineConfig:
    """Read a config file, and check all of it. Raises ConfigError, which names every problem."""
    file = Path(path).absolute()
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"there is no config file {file}; docs/pipeline.md shows one") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the config file {file}: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(str(file), [f"it is not TOML: {error}"]) from error
    return make_config(values, base=file.parent, name=str(file))


def make_config(
    values: Mapping[str, Any], *, base: str | os.PathLike[str] = ".", name: str = "the configuration"
) -> PipelineConfig:
    """Make a configuration of the values of a config file; relative paths begin at ``base``."""
    table = TomlTable(values)
    reader = _Reader(table, Path(base).absolute())
    config = reader.read()
    if not table.problems:
        _check_places(config, table)
    if table.problems:
        raise ConfigError(name, table.problems)
    return config


class _Reader:
    """Reads a file's tables. Values that are wrong become problems, and the rest is read all the same."""

    def __init__(self, table: TomlTable, base: Path) -> None:
        self._table = table
        self._base = base

    def read(self) -> PipelineConfig:
        table = self._table
        found = PipelineConfig(
            store=self._path(table, "store", required="write the directory of the store") or "",
            archive=self._path(table, "archive", required="write the directory or URI for the archive") or "",
            collections=self._collections(),
            every=table.duration("every"),
            report=self._path(table, "report"),
            metrics=self._path(table, "metrics"),
            spark=self._spark(),
            compact=table.choice("compact", COMPACT, default="auto"),
            keep=self._keep(),
            grace=table.duration("grace"),
            audit=self._audit(),
            loads=tuple(each for each in map(self._load, table.tables("load")) if each is not None),
        )
        table.finish()
        return found

    def _path(self, table: TomlTable, name: str, *, required: str | None = None) -> str | None:
        text = table.text(name, required=required)
        if text is None or "://" in text:
            return text
        return os.path.normpath(self._base / os.path.expanduser(text))

    def _collections(self) -> tuple[str, ...] | None:
        names = self._table.texts("collections")
        for each in names or ():
            _checked(self._table, "collections", check_collection_name, each)
        return names

    def _spark(self) -> SparkConfig:
        table = self._table.table("spark")
        if table is None:
            return SparkConfig()
        found = SparkConfig(master=table.text("master"), settings=table.settings("settings"))
        table.finish()
        return found

    def _keep(self) -> Keep | None:
        value = self._table.any("keep")
        if value is None:
            return None
        if not isinstance(value, str | dict):
            self._table.wrong("keep", f"{shown(value)} is not a policy; write one such as {POLICY!r}, or a table")
            return None
        _checked(self._table, "keep", Keep.of, value)
        return None if self._table.problems else Keep.of(value)

    def _audit(self) -> AuditConfig | None:
        table = self._table.table("audit")
        if table is None:
            return None
        history = self._path(table, "history", required="write the file or directory that a recorder writes")
        level = table.text("level") or Isolation.SERIALIZABLE.name
        _checked(table, "level", level_of, level)
        table.finish()
        return None if history is None else AuditConfig(history, level.upper())

    def _load(self, table: TomlTable) -> LoadConfig | None:
        source = table.text("source", required="write the files or the table to load")
        collection = table.text("collection", required="write the collection to load into")
        found = LoadConfig(
            source=self._source(source or ""),
            collection=collection or "",
            format=table.text("format"),
            mapping=table.mapping("mapping"),
            schema=table.mapping("schema"),
            mode=table.choice("mode", LOAD_MODES, default="upsert"),
            quarantine=self._path(table, "quarantine"),
            max_bad=self._max_bad(table),
            name=table.text("name"),
            version=table.number("version", default=0),
            options=table.settings("options"),
        )
        table.finish()
        if found.mapping is not None:
            _checked(table, "mapping", parse_mapping, found.mapping)
        if found.schema is not None:
            _checked(table, "schema", compile_schema, found.schema)
        if found.collection:
            _checked(table, "collection", check_collection_name, found.collection)
        return found if source and collection else None

    def _source(self, text: str) -> str:
        """A path if a file is there; else the name of a table, or a URI, as it is."""
        path = os.path.normpath(self._base / os.path.expanduser(text))
        is_path = "/" in text or glob.has_magic(text) or os.path.exists(path) or bool(Path(text).suffix)
        return path if is_path and "://" not in text else text

    @staticmethod
    def _max_bad(table: TomlTable) -> int | float | None:
        value = table.any("max_bad")
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            table.wrong("max_bad", f"{value!r} is not a number of rows, such as 100, nor a share, such as 0.01")
            return None
        return value


def _checked(table: TomlTable, name: str, check: Any, value: object) -> None:
    """Have a function of the library check a value; what it complains of becomes a problem of the key."""
    try:
        check(value)
    except Error as error:
        table.wrong(name, str(error))


def _check_places(config: PipelineConfig, table: TomlTable) -> None:
    """Look at the disk: is what will be read there, and is it safe to write where it says?"""
    store = Path(config.store)
    if "://" in config.store:
        table.wrong("store", "is a URI; a store is a directory of this machine")
    elif not (store / MANIFEST).exists() and not config.loads:
        what = "does not exist" if not store.exists() else "is not a Lowtide store"
        table.wrong("store", f"{store} {what}; write the directory that lowtide.open was called with")
    for name in ("archive", "report", "metrics"):
        place = getattr(config, name)
        if place is None or "://" in place:
            continue
        if Path(place) == store or store in Path(place).parents:
            table.wrong(name, f"{place} is inside the store, which keeps its own files there; choose another place")
        elif name != "metrics" and Path(place).exists() and not Path(place).is_dir():
            table.wrong(name, f"{place} is a file; write a directory")
    for name in ("report", "metrics"):
        if "://" in (getattr(config, name) or ""):
            table.wrong(name, "is a URI; it is written to this machine, so write a path")
    if config.grace is not None and config.keep is None:
        table.wrong("grace", "is how long a vacuum waits, and there is none; write keep, too, or leave it out")
    if config.metrics is not None and not Path(config.metrics).parent.is_dir():
        table.wrong(
            "metrics", f"{Path(config.metrics).parent} does not exist; write a file in the collector's directory"
        )
    if config.audit is not None and "://" not in config.audit.history and not Path(config.audit.history).exists():
        table.wrong("audit.history", f"{config.audit.history} does not exist; record one, as docs/audit.md says")
    for number, each in enumerate(config.loads, 1):
        if os.path.isabs(each.source) and not glob.glob(each.source):
            table.wrong(f"load[{number}].source", f"there is no file {each.source}")
