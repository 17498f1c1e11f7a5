"""Who holds which bytes: the caching allocator, the ledger of storages, what grows and who keeps it."""
