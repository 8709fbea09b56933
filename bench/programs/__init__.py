"""Whole programs, each written twice: on Lowtide's documents, and on sqlite3's tables.

The other comparisons measure single operations. These measure what a program pays that makes its transactions of many
statements: the five transactions of TPC-C, a queue of jobs, and the common statements one by one.
"""
