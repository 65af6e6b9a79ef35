"""What `auctune init` writes: every setting with its meaning and its default.

Prose stands behind `# `, settings that are left out behind `#` alone: without that sign each is one
that the service takes.
"""

TEMPLATE = """\
# A service of auctune. Start it with: auctune serve --config auctune.toml
# A line such as this one explains; a line that begins with '#' and a key is a setting that is left
# out, with the value that holds then, or an example where it says so.

# Where bids, decisions and money are kept; left out: auctune.db in the folder of --data. Examples:
#database = "sqlite:////var/lib/auctune/market.db"
# or, on a server, where a password is better left to ~/.pgpass than written here:
#database = "postgresql://auctune@localhost:5432/auctune"

# Where it listens. Whatever is not this machine alone needs a proxy with TLS in front.
host = "127.0.0.1"
port = 8420

# Of each API key. Keys themselves, and who has which budget, stand in the database:
# auctune keys add, auctune users add, auctune teams add.
[limits]
#requests_per_second = 2000.0
#burst = 4000.0
# Of a file that is uploaded:
#upload_bytes = 536_870_912

# A zone sells the nodes of one base model. A bid names its zone, or its model; the first zone with
# that model is its default. More zones are more [[zones]] tables.
[[zones]]
name = "default"

# tiny (a toy, built on this machine), a folder in transformers' format, or a name on the hub.
base = "tiny"

# Bids are planned in slots. A slot should be long against loading an adapter: seconds for the tiny
# base, minutes for a real one. It cannot be changed once the zone was opened.
slot_seconds = 60.0
# The horizon: the last slot in which a deadline may lie. Left out: a day, at most 1440 slots.
#slots = 1440
# The unit in which work is priced, in tokens; about the mean length of a row.
#sample_tokens = 64.0

# How training computes. "exact": an adapter comes out the same to the last bit, whoever shares its
# node; "fused": several adapters in one pass, faster.
#dtype = "float32"
#mode = "fused"
# Of a node on a CPU. Left out: this machine's cores, divided among its nodes.
#threads = 1

# Where a request leaves it to the market: the longest row in tokens, and the share of a node's slot
# that one job takes at most.
#max_length = 512
#share = 0.25

# The mechanism and its settings, as of auctune simulate --set. With "learned" prices, the default,
# the first bids of a new zone are cheap; "exponential" rises from the low to the high price as a
# slot fills, in money for a sample of work, and for a GB of memory in a slot.
[zones.auction]
mechanism = "pdftsp"
#pricing = "exponential"
#compute_low = 0.0005
#compute_high = 0.004
#memory_low = 0.01
#memory_high = 1.0

# Types of nodes. What a device can do with the base is measured at the first start, and kept;
# or a file of auctune profile says it, whose path starts from the folder of this file.
[zones.node_types.local]
# cpu, cuda, or cuda:N: one type for each GPU.
#device = "cpu"
#profile = "profile.json"
# Money for a slot at full load; nobody is admitted who pays less.
#energy_cost = 0.0

# Nodes: each is a process on this machine.
[[zones.nodes]]
id = "local-0"
type = "local"

# Who mends data, for bids that ask for it: in a process of the service's own.
[[zones.vendors]]
name = "house"
# Money, for a data set and for a row, and how long it says that it takes.
#price = "0.0000"
#price_per_row = "0.0000"
#seconds = 0.0
# Rows that it leaves out: shorter or longer ones, those in other languages (left out: any; an
# example is given), and those that are so similar to another.
#min_characters = 2
#max_characters = 100_000
#languages = ["en", "de"]
#similarity = 0.9
"""
