"""``lowtide pins``, ``pin`` and ``unpin``: commits that are kept under a name."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

import lowtide
from lowtide.cli.arguments import Json, PinName, StorePath
from lowtide.cli.failures import FAILED, fail
from lowtide.cli.output import Output
from lowtide.cli.reach import connected, find_store, reading, settings
from lowtide.cli.words import moment
from lowtide.errors import UsageError
from lowtide.observe.stats import PinStats, Stats
from lowtide.system.quantities import seconds_of, span

_TTL = "When it expires, from now: 90s, 15m, 1h30m, 2d. The default is one hour; for --renew, the pin's last value."


def pins(path: StorePath, json: Json = False) -> None:
    """List the live pins of all processes and, if the store has an owner, what each holds."""
    store, output = find_store(path), Output(json)
    with reading(store) as opened:
        alive = [as_plain(each) for each in opened.pins()]
    held = {each.name: each for each in _held(store)}
    for each in alive:
        known = held.get(each["name"])
        each["versions_held"] = known.versions_held if known is not None else None
        each["bytes_held"] = known.bytes_held if known is not None else None
    if json:
        output.document({"path": store, "pins": alive})
        return
    now = time.time()
    output.table(
        ("name", "commit", "age", "expires in", "keyspaces", "versions held", "bytes held", "taken by"),
        [
            (
                each["name"],
                each["ts"],
                span(now - each["taken"]),
                span(each["expires"] - now),
                "all" if each["keyspaces"] is None else ", ".join(each["keyspaces"]),
                "unknown" if each["versions_held"] is None else each["versions_held"],
                "unknown" if each["bytes_held"] is None else each["bytes_held"],
                each["owner"],
            )
            for each in alive
        ],
        none="no pins",
    )


def pin(
    path: StorePath,
    name: PinName,
    ttl: Annotated[str | None, typer.Option("--ttl", metavar="TIME", help=_TTL, show_default=False)] = None,
    keyspace: Annotated[
        list[str] | None,
        typer.Option("--keyspace", "-k", metavar="NAME", help="Keep only this keyspace; may be repeated."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="PIN", help="Keep what this pin keeps: its name, or its commit.", show_default=False
        ),
    ] = None,
    renew: Annotated[bool, typer.Option("--renew", help="Renew the pin with this name instead.")] = False,
    json: Json = False,
) -> None:
    """Keep the last commit under a name that every process can open, until it expires."""
    store, output = find_store(path), Output(json)
    seconds = None if ttl is None else seconds_of(ttl)
    if renew and (keyspace or at is not None):
        raise UsageError("--renew changes only the time; leave out --keyspace and --at")
    with reading(store) as opened:
        if renew:
            taken = _find(opened, name)
            taken.renew(seconds)
        else:
            place = int(at) if at is not None and at.isdecimal() else at
            taken = opened.pin(name, 3600.0 if seconds is None else seconds, keyspaces=keyspace or None, at=place)
        found = as_plain(taken)
    output.answer({"path": store, **found}, f"the pin {name!r} keeps commit {taken.ts} until {moment(taken.expires)}")


def unpin(path: StorePath, name: PinName, json: Json = False) -> None:
    """Remove a pin, so that versions only it holds can be collected."""
    store, output = find_store(path), Output(json)
    with reading(store) as opened:
        removed = opened.unpin(name)
    if not removed:
        fail(f"there is no pin {name!r} in {store}", FAILED)
    output.answer({"path": store, "name": name, "removed": True}, f"removed the pin {name!r}")


def as_plain(each: lowtide.Pin) -> dict[str, Any]:
    return {
        "name": each.name,
        "ts": each.ts,
        "taken": each.taken,
        "expires": each.expires,
        "keyspaces": None if each.keyspaces is None else list(each.keyspaces),
        "owner": each.owner,
    }


def _find(opened: lowtide.Store, name: str) -> lowtide.Pin:
    found = next((each for each in opened.pins() if each.name == name), None)
    if found is None:
        fail(f"there is no pin {name!r}, or it has expired; take a new one without --renew", FAILED)
    return found


def _held(store: Path) -> list[PinStats]:
    """What the pins hold, if the store has an owner."""
    with connected(store) as owner:
        if owner is None:
            return []
        return msgspec.convert(owner[0].ask("stats", timeout=settings.patience), Stats).pins
