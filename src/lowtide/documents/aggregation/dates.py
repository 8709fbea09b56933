"""Date operators of expressions.

A datetime without a time zone is UTC, and the result then has no time zone either.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo

from lowtide.documents.aggregation.context import (
    BadOperand,
    Build,
    Context,
    Evaluate,
    by_name,
    described,
    unary,
    whole_number,
)
from lowtide.errors import shown
from lowtide.values.paths import MISSING
from lowtide.values.values import microseconds

_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_UNITS: Final = {
    "week": timedelta(weeks=1),
    "day": timedelta(days=1),
    "hour": timedelta(hours=1),
    "minute": timedelta(minutes=1),
    "second": timedelta(seconds=1),
    "millisecond": timedelta(milliseconds=1),
}
_MONTHS: Final = {"year": 12, "quarter": 3, "month": 1}
_MONTH_NAMES: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_OFFSET: Final = re.compile(r"([+-])(\d\d)(?::?(\d\d))?")


@lru_cache(128)
def _zone(name: str) -> tzinfo:
    if name in ("UTC", "GMT", "Z"):
        return UTC
    if found := _OFFSET.fullmatch(name):
        minutes = int(found[2]) * 60 + int(found[3] or 0)
        if minutes < 24 * 60:
            return timezone(timedelta(minutes=-minutes if found[1] == "-" else minutes))
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise BadOperand(
            f"unknown time zone {name!r}; use UTC, an offset such as +02:00, or a name such as Europe/Vienna"
        ) from error


def _local(moment: Any, zone: Any = MISSING) -> datetime:
    """Return ``moment`` in the local time of the zone."""
    if not isinstance(moment, datetime):
        raise BadOperand(f"expected a date, got {described(moment)}")
    if zone is not MISSING and not isinstance(zone, str):
        raise BadOperand(f"the time zone must be a string, got {described(zone)}")
    if moment.tzinfo is None:
        if zone is MISSING:
            return moment
        moment = moment.replace(tzinfo=UTC)
    local: datetime = moment.astimezone(UTC if zone is MISSING else _zone(zone))
    return local


def _like(moment: datetime, pattern: datetime) -> datetime:
    """Convert ``moment`` to UTC, without a time zone if ``pattern`` has none."""
    if pattern.tzinfo is not None:
        return moment.astimezone(UTC)
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


def _part(function: Callable[[datetime], int]) -> Build:
    """Build an operator that returns one part of a date. Its operand is an expression or {date, timezone}."""

    def of(moment: Any, zone: Any = MISSING) -> int | None:
        return None if zone is None else function(_local(moment, zone))

    alone, named = unary(of), by_name(of, ("date",), ("timezone",), strict=("date",))

    def build(operand: Any, context: Context) -> Evaluate:
        return named(operand, context) if isinstance(operand, dict) and "date" in operand else alone(operand, context)

    return build


def _week(moment: datetime) -> int:
    """Return the week of the year, from 0. Weeks begin on Sunday."""
    return int(moment.strftime("%U"))


_FORMATS: Final[dict[str, Callable[[datetime], str]]] = {
    "%": lambda moment: "%",
    "B": lambda moment: _MONTH_NAMES[moment.month - 1],
    "G": lambda moment: f"{moment.isocalendar().year:04}",
    "H": lambda moment: f"{moment.hour:02}",
    "L": lambda moment: f"{moment.microsecond // 1000:03}",
    "M": lambda moment: f"{moment.minute:02}",
    "S": lambda moment: f"{moment.second:02}",
    "U": lambda moment: f"{_week(moment):02}",
    "V": lambda moment: f"{moment.isocalendar().week:02}",
    "Y": lambda moment: f"{moment.year:04}",
    "Z": lambda moment: f"{_offset(moment):+04}",
    "b": lambda moment: _MONTH_NAMES[moment.month - 1][:3],
    "d": lambda moment: f"{moment.day:02}",
    "j": lambda moment: f"{moment.timetuple().tm_yday:03}",
    "m": lambda moment: f"{moment.month:02}",
    "u": lambda moment: str(moment.isoweekday()),
    "w": lambda moment: str(moment.isoweekday() % 7 + 1),
    "z": lambda moment: "{}{:02}{:02}".format("-" if _offset(moment) < 0 else "+", *divmod(abs(_offset(moment)), 60)),
}
_DIRECTIVE: Final = re.compile("%(.?)", re.DOTALL)


def _offset(moment: datetime) -> int:
    """Return the offset from UTC in minutes, positive to the east."""
    return (moment.utcoffset() or timedelta()) // timedelta(minutes=1)


def _to_string(moment: Any, pattern: Any, zone: Any, on_null: Any) -> Any:
    if moment is None or moment is MISSING:
        return None if on_null is MISSING else on_null
    if zone is None or pattern is None:
        return None
    local = _local(moment, zone)
    if pattern is MISSING:
        pattern = "%Y-%m-%dT%H:%M:%S.%L" + ("Z" if zone is MISSING or zone == "UTC" else "")
    if not isinstance(pattern, str):
        raise BadOperand(f"the format must be a string, got {described(pattern)}")

    def written(found: re.Match[str]) -> str:
        if found[1] not in _FORMATS:
            raise BadOperand(f"unknown specifier {found[0]!r} in the format {pattern!r}")
        return _FORMATS[found[1]](local)

    return _DIRECTIVE.sub(written, pattern)


def _unit(unit: Any) -> str:
    if not isinstance(unit, str) or (unit not in _UNITS and unit not in _MONTHS):
        raise BadOperand(f"unknown unit {described(unit)}; use one of {', '.join((*_MONTHS, *_UNITS))}")
    return unit


def _later(moment: datetime, unit: str, amount: int) -> datetime:
    """Add units of calendar time. A day past the end of the month becomes the last day of the month."""
    if unit in _UNITS:
        return moment + amount * _UNITS[unit]
    year, month = divmod(moment.year * 12 + moment.month - 1 + amount * _MONTHS[unit], 12)
    if not 1 <= year <= 9999:
        raise OverflowError
    return moment.replace(year=year, month=month + 1, day=min(moment.day, monthrange(year, month + 1)[1]))


def _adding(sign: int) -> Build:
    def add(moment: Any, unit: Any, amount: Any, zone: Any) -> datetime | None:
        whole = whole_number(amount)
        if whole is None:
            raise BadOperand(f"the amount must be an integer, got {described(amount)}")
        if zone is None:
            return None
        try:
            return _like(_later(_local(moment, zone), _unit(unit), sign * whole), moment)
        except OverflowError as error:
            raise BadOperand(f"{moment} plus {shown(amount)} {unit}s is out of range for a date") from error

    names = ("startDate", "unit", "amount")
    return by_name(add, names, ("timezone",), strict=names)


def _truncated(moment: Any, unit: Any, size: Any, zone: Any, first_day: Any) -> datetime | None:
    """Truncate ``moment`` to the start of its unit, or of its bin of ``size`` units counted from the year 2000."""
    if zone is None or size is None:
        return None
    step = 1 if size is MISSING else whole_number(size)
    if step is None or step < 1:
        raise BadOperand(f"binSize must be a positive integer, got {described(size)}")
    day = "sunday" if first_day is MISSING else first_day.lower() if isinstance(first_day, str) else first_day
    local, origin = _local(moment, zone), datetime(2000, 1, 1)
    naive = local.replace(tzinfo=None)
    if _unit(unit) in _MONTHS:
        months = (naive.year - 2000) * 12 + naive.month - 1
        start = _later(origin, "month", months // (step * _MONTHS[unit]) * step * _MONTHS[unit])
    else:
        if unit == "week":
            starts = [each for each in _DAYS if each == day or each[:3] == day]
            if not starts:
                raise BadOperand(f"unknown day of the week {described(first_day)}")
            origin += timedelta(days=(_DAYS.index(starts[0]) - origin.weekday()) % 7)
        width = step * _UNITS[unit]
        start = origin + (naive - origin) // width * width
    return _like(start.replace(tzinfo=local.tzinfo), moment)


def _difference(start: Any, end: Any, unit: Any, zone: Any, first_day: Any) -> int | None:
    """Return the number of unit boundaries between two dates."""
    if zone is None:
        return None
    first, second = (_truncated(each, unit, MISSING, zone, first_day) for each in (start, end))
    assert first is not None
    assert second is not None
    if unit in _MONTHS:
        first, second = _local(first, zone), _local(second, zone)
        return ((second.year - first.year) * 12 + second.month - first.month) // _MONTHS[unit]
    if unit in ("week", "day"):
        first, second = (_local(each, zone).replace(tzinfo=None) for each in (first, second))
        return (second - first) // _UNITS[unit]
    return (microseconds(second) - microseconds(first)) // (_UNITS[unit] // timedelta(microseconds=1))


OPERATORS: Final[dict[str, Build]] = {
    "$dateAdd": _adding(1),
    "$dateDiff": by_name(
        _difference,
        ("startDate", "endDate", "unit"),
        ("timezone", "startOfWeek"),
        strict=("startDate", "endDate", "unit"),
    ),
    "$dateSubtract": _adding(-1),
    "$dateToString": by_name(_to_string, ("date",), ("format", "timezone", "onNull")),
    "$dateTrunc": by_name(
        _truncated, ("date", "unit"), ("binSize", "timezone", "startOfWeek"), strict=("date", "unit")
    ),
    "$dayOfMonth": _part(lambda moment: moment.day),
    "$dayOfWeek": _part(lambda moment: moment.isoweekday() % 7 + 1),
    "$dayOfYear": _part(lambda moment: moment.timetuple().tm_yday),
    "$hour": _part(lambda moment: moment.hour),
    "$isoDayOfWeek": _part(lambda moment: moment.isoweekday()),
    "$isoWeek": _part(lambda moment: moment.isocalendar().week),
    "$isoWeekYear": _part(lambda moment: moment.isocalendar().year),
    "$millisecond": _part(lambda moment: moment.microsecond // 1000),
    "$minute": _part(lambda moment: moment.minute),
    "$month": _part(lambda moment: moment.month),
    "$second": _part(lambda moment: moment.second),
    "$week": _part(_week),
    "$year": _part(lambda moment: moment.year),
}
