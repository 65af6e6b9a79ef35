"""A soak of the service: random requests and random faults, then an audit of all records.

| module | contents |
| --- | --- |
| environment | the service, its Ray cluster and its vendors |
| faults | fault injection and recovery |
| zones | a zone of each kind: settings, random bids, faults; a new kind adds one class |
| client, actions, observed_job | clients, their actions, and their records |
| history, final_state | what the service has recorded, and what it returns at the end |
| audit | checks of all records against each other, which yield violations |
| run, report | the soak, its progress and its result |
"""
