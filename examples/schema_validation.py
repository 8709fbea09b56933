"""A JSON Schema: invalid documents are refused with the path of the error, and existing ones are listed."""

from __future__ import annotations

import tempfile

import lowtide

SCHEMA = {
    "type": "object",
    "required": ["email"],
    "properties": {
        "email": {"type": "string", "pattern": "@"},
        "age": {"type": "integer", "minimum": 0},
        "addresses": {"type": "array", "items": {"required": ["city"]}},
    },
}


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, lowtide.open(directory) as store:
        users = store.collection("users")
        users.insert_many([{"_id": 1, "email": "ann@example.com"}, {"_id": 2, "email": "bob", "age": -4}])

        print("there already:")
        for _id, violation in users.set_schema(SCHEMA):
            print(f"  document {_id}, {violation.path}: {violation.reason}")

        print("refused:")
        for document in (
            {"_id": 3, "name": "Cid"},
            {"_id": 3, "email": "cid@example.com", "addresses": [{"city": "Oslo"}, {"street": "Storgata"}]},
        ):
            try:
                users.insert_one(document)
            except lowtide.DocumentRefused as error:
                print(f"  {error.path}: {error.reason}")
        try:
            users.update_many({}, {"$inc": {"age": -1}})  # one document after the other, all or none
        except lowtide.DocumentRefused as error:
            print(f"  {error.path}: {error.reason}")

        users.update_one({"_id": 2}, {"$set": {"email": "bob@example.com", "age": 4}})  # fixed
        assert users.set_schema(SCHEMA) == []
        assert users.find().to_list() == [
            {"_id": 1, "email": "ann@example.com"},
            {"_id": 2, "email": "bob@example.com", "age": 4},
        ]


if __name__ == "__main__":
    main()
