"""The date operators of expressions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from lowtide.errors import OperationFailure
from tests.unit.documents.aggregation.piping import same, value_of

LEAP = datetime(2024, 2, 29, 23, 30, 15, 123_456, tzinfo=UTC)
NAIVE = datetime(2024, 2, 29, 23, 30, 15, 123_456)
EAST = datetime(2024, 3, 1, 1, 30, 15, tzinfo=timezone(timedelta(hours=2)))
"""The same hour as LEAP."""
DOCUMENT = {"d": LEAP, "n": NAIVE, "e": EAST, "jan": datetime(2024, 1, 31), "newyear": datetime(2021, 1, 1)}

CASES: list[tuple[Any, Any]] = [
    ({"$year": "$d"}, 2024),
    ({"$year": "$n"}, 2024),
    ({"$month": ["$e"]}, 2),
    ({"$month": {"date": "$d", "timezone": "Europe/Vienna"}}, 3),
    ({"$dayOfMonth": "$d"}, 29),
    ({"$dayOfMonth": {"date": "$n", "timezone": "+01:00"}}, 1),
    ({"$hour": "$d"}, 23),
    ({"$hour": {"date": "$d", "timezone": "-0330"}}, 20),
    ({"$hour": {"date": "$d", "timezone": "GMT"}}, 23),
    ({"$minute": "$d"}, 30),
    ({"$second": "$d"}, 15),
    ({"$millisecond": "$d"}, 123),
    ({"$dayOfWeek": "$d"}, 5),
    ({"$dayOfWeek": datetime(2024, 3, 3)}, 1),
    ({"$isoDayOfWeek": datetime(2024, 3, 3)}, 7),
    ({"$dayOfYear": "$d"}, 60),
    ({"$week": "$d"}, 8),
    ({"$isoWeek": "$newyear"}, 53),
    ({"$isoWeekYear": "$newyear"}, 2020),
    ({"$year": None}, None),
    ({"$year": "$missing"}, None),
    ({"$year": {"date": "$missing"}}, None),
    ({"$year": {"date": "$d", "timezone": None}}, None),
    ({"$dateToString": {"date": "$d"}}, "2024-02-29T23:30:15.123Z"),
    ({"$dateToString": {"date": "$d", "timezone": "+02:00"}}, "2024-03-01T01:30:15.123"),
    ({"$dateToString": {"date": "$n", "format": "%Y-%m-%d"}}, "2024-02-29"),
    ({"$dateToString": {"date": "$n", "format": "%d.%m.%Y %H:%M:%S,%L"}}, "29.02.2024 23:30:15,123"),
    ({"$dateToString": {"date": "$n", "format": "%j %u %w %U %b %B 100%%"}}, "060 4 5 08 Feb February 100%"),
    ({"$dateToString": {"date": "$newyear", "format": "%G-W%V"}}, "2020-W53"),
    ({"$dateToString": {"date": "$d", "format": "%z %Z", "timezone": "-03:30"}}, "-0330 -210"),
    ({"$dateToString": {"date": "$d", "format": "%z", "timezone": "Europe/Vienna"}}, "+0100"),
    ({"$dateToString": {"date": None}}, None),
    ({"$dateToString": {"date": "$missing", "onNull": "never"}}, "never"),
    ({"$dateTrunc": {"date": "$d", "unit": "year"}}, datetime(2024, 1, 1, tzinfo=UTC)),
    ({"$dateTrunc": {"date": "$d", "unit": "quarter"}}, datetime(2024, 1, 1, tzinfo=UTC)),
    ({"$dateTrunc": {"date": "$n", "unit": "month"}}, datetime(2024, 2, 1)),
    ({"$dateTrunc": {"date": "$n", "unit": "week"}}, datetime(2024, 2, 25)),
    ({"$dateTrunc": {"date": "$n", "unit": "week", "startOfWeek": "Monday"}}, datetime(2024, 2, 26)),
    ({"$dateTrunc": {"date": "$n", "unit": "day"}}, datetime(2024, 2, 29)),
    (
        {"$dateTrunc": {"date": "$d", "unit": "day", "timezone": "+02:00"}},
        datetime(2024, 2, 29, 22, tzinfo=UTC),
    ),
    ({"$dateTrunc": {"date": "$n", "unit": "hour", "binSize": 6}}, datetime(2024, 2, 29, 18)),
    ({"$dateTrunc": {"date": "$n", "unit": "millisecond"}}, datetime(2024, 2, 29, 23, 30, 15, 123_000)),
    ({"$dateTrunc": {"date": datetime(1999, 12, 31), "unit": "month", "binSize": 5}}, datetime(1999, 8, 1)),
    ({"$dateTrunc": {"date": None, "unit": "day"}}, None),
    ({"$dateAdd": {"startDate": "$jan", "unit": "month", "amount": 1}}, datetime(2024, 2, 29)),
    ({"$dateAdd": {"startDate": "$jan", "unit": "quarter", "amount": -1}}, datetime(2023, 10, 31)),
    ({"$dateAdd": {"startDate": "$jan", "unit": "hour", "amount": 25}}, datetime(2024, 2, 1, 1)),
    ({"$dateSubtract": {"startDate": "$d", "unit": "year", "amount": 1}}, LEAP.replace(year=2023, day=28)),
    ({"$dateAdd": {"startDate": None, "unit": "day", "amount": 1}}, None),
    ({"$dateDiff": {"startDate": "$jan", "endDate": "$n", "unit": "month"}}, 1),
    ({"$dateDiff": {"startDate": "$n", "endDate": "$jan", "unit": "day"}}, -29),
    ({"$dateDiff": {"startDate": "$newyear", "endDate": "$d", "unit": "year"}}, 3),
    ({"$dateDiff": {"startDate": "$n", "endDate": "$e", "unit": "second"}}, 0),
    ({"$dateDiff": {"startDate": "$jan", "endDate": "$n", "unit": "week"}}, 4),
]


@pytest.mark.parametrize(("expression", "wanted"), CASES, ids=repr)
def test_a_date_operator_gives_what_it_should(expression: Any, wanted: Any) -> None:
    assert same(value_of(expression, DOCUMENT), wanted)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ({"$year": 2024}, r"\$year: expected a date, got int 2024"),
        ({"$year": {"date": "$d", "timezone": "Mars/Base"}}, r"\$year: unknown time zone 'Mars/Base'"),
        ({"$year": {"date": "$d", "timezone": "../etc"}}, r"\$year: unknown time zone '../etc'"),
        ({"$year": {"date": "$d", "timezone": 1}}, r"\$year: the time zone must be a string"),
        ({"$year": {"date": "$d", "zone": "UTC"}}, r"\$year: unknown operand 'zone'"),
        (
            {"$dateToString": {"date": "$d", "format": "%Q"}},
            r"\$dateToString: unknown specifier '%Q' in the format '%Q'",
        ),
        ({"$dateToString": {"date": "$d", "format": "%"}}, r"\$dateToString: unknown specifier '%' in the format '%'"),
        ({"$dateToString": {"date": "today"}}, r"\$dateToString: expected a date"),
        ({"$dateTrunc": {"date": "$d", "unit": "eon"}}, r"\$dateTrunc: unknown unit str 'eon'"),
        ({"$dateTrunc": {"date": "$d", "unit": ["day"]}}, r"\$dateTrunc: unknown unit list \['day'\]"),
        (
            {"$dateTrunc": {"date": "$d", "unit": "day", "binSize": 0}},
            r"\$dateTrunc: binSize must be a positive integer",
        ),
        (
            {"$dateTrunc": {"date": "$d", "unit": "week", "startOfWeek": "x"}},
            r"\$dateTrunc: unknown day of the week str 'x'",
        ),
        (
            {"$dateAdd": {"startDate": "$d", "unit": "year", "amount": 9000}},
            r"\$dateAdd: .* is out of range for a date",
        ),
        ({"$dateAdd": {"startDate": "$d", "unit": "day", "amount": 0.5}}, r"\$dateAdd: the amount must be an integer"),
    ],
    ids=repr,
)
def test_a_date_operator_refuses_what_it_cannot_take(expression: Any, reason: str) -> None:
    with pytest.raises(OperationFailure, match=reason):
        value_of(expression, DOCUMENT)
