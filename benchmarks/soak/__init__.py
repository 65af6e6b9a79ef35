"""A soak of a whole service: random bids of all kinds, random faults, and then the books.

| module | is |
| --- | --- |
| kind, kinds, *_kind | what the soak must know of a kind of zone; a new kind is one object more |
| site, vendors, data_sets | the market that is soaked, and what is around it |
| client, moves, bid_record, watched_job | those who bid, and what they know by themselves |
| stage, fault, faults, weather | what is broken, how, and when |
| log, audit | what is on record, and whether it is what was said |
| run, progress, report | all of it, from a seed |
"""
