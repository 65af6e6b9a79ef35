"""How the tables of one release become those of the next; see `auctune.service.storage.schema`."""
