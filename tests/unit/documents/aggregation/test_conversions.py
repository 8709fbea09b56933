"""Types, and the operators that convert between them."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from lowtide.errors import OperationFailure
from tests.unit.documents.aggregation.piping import same, value_of

ID = UUID(int=1)

TYPES: list[tuple[Any, str]] = [
    (None, "null"),
    (True, "bool"),
    (1, "int"),
    (2**31, "long"),
    (2**70, "long"),
    (1.0, "double"),
    (Decimal(1), "decimal"),
    ("", "string"),
    (b"", "binData"),
    (ID, "binData"),
    (datetime(2024, 1, 1), "date"),
    ([], "array"),
    ({}, "object"),
]

CASES: list[tuple[Any, Any]] = [
    *[({"$type": {"$literal": value}}, name) for value, name in TYPES],
    ({"$type": "$missing"}, "missing"),
    ({"$isNumber": Decimal(1)}, True),
    ({"$isNumber": True}, False),
    ({"$isNumber": "$missing"}, False),
    ({"$toInt": 2.9}, 2),
    ({"$toInt": -2.9}, -2),
    ({"$toInt": True}, 1),
    ({"$toInt": "-12"}, -12),
    ({"$toInt": Decimal("7.5")}, 7),
    ({"$toLong": datetime(1970, 1, 1, 0, 0, 1)}, 1000),
    ({"$toInt": None}, None),
    ({"$toInt": "$missing"}, None),
    ({"$toDouble": "1.5e3"}, 1500.0),
    ({"$toDouble": 2}, 2.0),
    ({"$toDouble": False}, 0.0),
    ({"$toDecimal": 0.1}, Decimal("0.1")),
    ({"$toDecimal": "1.10"}, Decimal("1.10")),
    ({"$toDecimal": True}, Decimal(1)),
    ({"$toString": 2.5}, "2.5"),
    ({"$toString": 2.0}, "2"),
    ({"$toString": False}, "false"),
    ({"$toString": Decimal("1.10")}, "1.10"),
    ({"$toString": ID}, str(ID)),
    ({"$toString": datetime(2024, 1, 2, 3, 4, 5, 6000)}, "2024-01-02T03:04:05.006Z"),
    ({"$toString": None}, None),
    ({"$toBool": 0.0}, False),
    ({"$toBool": ""}, True),
    ({"$toBool": "false"}, True),
    ({"$toBool": datetime(2024, 1, 1)}, True),
    ({"$toDate": 1000}, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
    ({"$toDate": "2024-02-29"}, datetime(2024, 2, 29, tzinfo=UTC)),
    ({"$toDate": "2024-02-29T10:00:00Z"}, datetime(2024, 2, 29, 10, tzinfo=UTC)),
    ({"$convert": {"input": "7", "to": "int"}}, 7),
    ({"$convert": {"input": "7", "to": 1}}, 7.0),
    ({"$convert": {"input": "x", "to": "int", "onError": "bad"}}, "bad"),
    ({"$convert": {"input": "$missing", "to": "int", "onNull": 0}}, 0),
    ({"$convert": {"input": None, "to": "int"}}, None),
    ({"$convert": {"input": 1, "to": None}}, None),
]


@pytest.mark.parametrize(("expression", "wanted"), CASES, ids=repr)
def test_a_conversion_gives_what_it_should(expression: Any, wanted: Any) -> None:
    assert same(value_of(expression), wanted)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ({"$toInt": "2.5"}, r"\$toInt: cannot convert str '2.5' to an int"),
        ({"$toInt": " 2"}, r"\$toInt: cannot convert str ' 2' to an int"),
        ({"$toInt": "1_0"}, r"\$toInt: cannot convert str '1_0' to an int"),
        ({"$toInt": float("inf")}, r"\$toInt: cannot convert float inf to an int"),
        ({"$toDouble": "nan"}, r"\$toDouble: cannot convert str 'nan' to a double"),
        ({"$toDouble": 10**400}, r"\$toDouble: cannot convert int 1000"),
        ({"$toDecimal": "x"}, r"\$toDecimal: cannot convert str 'x' to a decimal"),
        ({"$toString": [[]]}, r"\$toString: cannot convert list \[\] to a string"),
        ({"$toDate": "soon"}, r"\$toDate: cannot convert str 'soon' to a date"),
        ({"$toDate": 1e30}, r"\$toDate: cannot convert float 1e\+30 to a date"),
        ({"$convert": {"input": "x", "to": "int"}}, r"\$convert: cannot convert str 'x' to an int; pass onError"),
        ({"$convert": {"input": "x", "to": "soul"}}, r"\$convert: unknown target type str 'soul'"),
    ],
    ids=repr,
)
def test_what_cannot_be_converted_is_refused(expression: Any, reason: str) -> None:
    with pytest.raises(OperationFailure, match=reason):
        value_of(expression)
