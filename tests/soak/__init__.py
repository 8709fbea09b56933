"""Everything at once, for as long as you like: ``make soak MINUTES=n``, or ``python -m tests.soak --minutes n``.

An owner with threads at every isolation level, followers, pins and consumers in other processes, checkpoints,
collections, backups and compactions; all of them are killed and started again at random, with random options. What must
hold is checked all along (``world``, ``ledger``), and that memory and disk stay flat at the end (``flatness``).
"""
