"""Whole programs, each written twice: on Lowtide's documents, and on sqlite3's tables.

The other comparisons measure single operations. These measure the costs of a program whose transactions have many
statements: the five transactions of TPC-C, a queue of jobs, and the common statements one by one.
"""
