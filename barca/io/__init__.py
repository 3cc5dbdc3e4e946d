"""Effects: packs, the ledger, logs and run markers, one per module."""
