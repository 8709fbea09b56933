"""Everything at once, for as long as you like: ``make soak MINUTES=n``, or ``python -m tests.soak --minutes n``.

An owner with threads at every isolation level, followers, pins and consumers in other processes, checkpoints,
collections, backups and compactions; all of them are killed and restarted at random, with random options. Invariants
are checked continuously (``world``, ``ledger``), and flat memory and disk usage at the end (``flatness``).
"""
