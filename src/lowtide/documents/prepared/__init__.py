"""Prepared statements: a statement is compiled and planned once for its *shape*, and run again with other values.

The shape of a filter is its paths, its operators and the types of its operands. The shape of an update is its
operators, its fields and the types of their values. Operands and values are parameters. So ``{"age": {"$gt": 30}}`` and
``{"age": {"$gt": 40}}`` have the same shape, and ``{"age": {"$gt": "x"}}`` has a different one.

========================  ==============================================================================================
``shapes.py``             recognizes the shape of a filter: ``prepare_filter``
``lookups.py``            a plan with its values taken out, once for each shape and each version of the catalog row
``bound.py``              a shape with values: ``PreparedFilter`` and ``PreparedUpdate``
``binding.py``            writes the function that recognizes a statement like the last one
``updates.py``            recognizes the shape of an update, and writes its function: ``prepare_update``
``splices.py``            writes the function that changes a document in its encoded form
``keys.py``               writes the function that makes the index entry of a document
``statements.py``         finds few documents by a lookup, and deletes one by its ``_id``
``changes.py``            updates one document, or few
``inserts.py``            inserts one document, or many by column
``source.py``             makes a function from source text
========================  ==============================================================================================

Three rules ensure that prepared and unprepared statements do the same:

1. **Only plain values are parameters.** None, NaN, Decimals, arrays, objects, patterns and instances of subclasses have
   special meanings in MongoDB's language. A filter or update that contains one is compiled as a whole by
   ``documents/filters`` and ``documents/updates``, which define what every statement means.
2. **A prepared plan is the planner's plan.** ``lookups.py`` takes the values out of the planner's plan, puts them in
   again, and keeps the result only if that gives the same plan.
3. **What depends on the data is checked in each call.** Values that are too long for a key, empty ranges and fields of
   an unexpected type take the general path.

The caches are bounded, belong to the process, and hold pure functions, so they never become invalid. What depends on
the catalog is kept with the decoded catalog row, which is replaced by another object when an index or a schema changes.
"""
