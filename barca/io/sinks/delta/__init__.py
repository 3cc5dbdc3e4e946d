"""Delta sinks: one Delta table of every key; each run is one commit.

`types` says how columns are written, `table` opens and commits, `rows` writes data files, `publishing` puts
keys in the place of what the table held of them, `upkeep` keeps it small.
"""
