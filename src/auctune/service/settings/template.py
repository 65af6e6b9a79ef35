"""What `auctune init` writes: every setting with its meaning and its default.

Prose stands behind `# `, settings that are left out behind `#` alone: without that sign each is one
that the service takes.
"""

TEMPLATE = """\
# A service of auctune. Start it with: auctune serve --config auctune.toml
# A line such as this one explains; a line that begins with '#' and a key is a setting that is left
# out, with the value that holds then, or an example where it says so.

# The zone below is an auction's. Zones of other kinds stand behind it, left out: take the sign away
# from a table and its keys. docs/reference/auctune-toml.md lists all keys of each kind.

# Where bids, decisions and money are kept; left out: auctune.db in the folder of --data. Examples:
#database = "sqlite:////var/lib/auctune/market.db"
# or, on a server, where a password is better left to ~/.pgpass than written here:
#database = "postgresql://auctune@localhost:5432/auctune"

# Where vendors outside reach it, if not where it listens. An example:
#public_url = "https://market.example"

# Where it listens. Whatever is not this machine alone needs a proxy with TLS in front.
host = "127.0.0.1"
port = 8420
# Addresses or networks of such proxies: their X-Forwarded-For and X-Forwarded-Proto are believed.
# An example:
#trusted_proxies = ["127.0.0.1"]

# Of each API key:
[limits]
#requests_per_second = 300.0
#burst = 600.0
# Requests that are not answered yet:
#requests = 500
# Streams of events that are open at once:
#streams = 20
# Of each user: jobs that are not over, and files, with results.
#open_jobs = 10_000
#files = 10_000
#stored_bytes = 53_687_091_200
# Uploads under way at once; they count as files, and with their bytes.
#uploads = 20
# Uploads within 24 hours, and their bytes, those included that were deleted since:
#uploads_per_day = 10_000
#upload_bytes_per_day = 53_687_091_200
#webhooks = 10
# Bids are kept for good, rejected ones too, and so are pauses and resumes: so many of them in a
# day, and so many bytes of bids.
#bids_per_day = 100_000
#bid_bytes_per_day = 100_000_000
# Of a file that is uploaded:
#upload_bytes = 536_870_912
# Of each row in it; raise it where a base reads more than some 60,000 tokens:
#row_characters = 250_000
# That its examination may take:
#examination_seconds = 1800.0
# Of all clients together; half of the files that the process may open is the most that there are.
#connections = 4096
# That bids and uploads leave free on the disk of the data folder:
#reserved_bytes = 1_073_741_824

# Webhooks: requests to addresses that users register, sent when a job ends.
[webhooks]
# Whether addresses may be in private networks; users could then reach what is beside the service.
#private_addresses = false
# Attempts of one delivery, and the wait after the first; each further wait is four times as long.
#max_attempts = 8
#initial_backoff_seconds = 5.0

# A zone sells the nodes of one base model. A bid names its zone, or its model; of several zones
# with that model it goes to the one that does it for least. More zones are more [[zones]] tables.
[[zones]]
# How it is sold, which says what other keys there are: "auction", of nodes that are here; "spot",
# on rented instances; "timeshare", jobs with loss targets on one pool; or "edge", jobs with data at
# sites (docs/reference/auctune-toml.md has their keys).
#kind = "auction"
name = "default"

# tiny (a toy, built on this machine), a folder in transformers' format, whose path starts from the
# folder of this file, or a model on the hub: hub:NAME or ORG/NAME.
base = "tiny"

# Bids are planned in slots. A slot should be long against loading an adapter: seconds for the tiny
# base, minutes for a real one. It cannot be changed once the zone was opened.
slot_seconds = 60.0
# The horizon: the last slot in which a deadline may lie. Left out: a day, at most 1440 slots.
#slots = 1440
# The unit in which work is priced, in tokens; about the mean length of a row.
#sample_tokens = 64.0

# Time limit where a device is measured.
#measure_seconds = 90.0

# How training computes. "exact": an adapter comes out the same to the last bit, whoever shares its
# node; "fused": several adapters in one pass, faster.
#dtype = "float32"
#mode = "fused"
# Of a node on a CPU. Left out: this machine's cores, divided among its nodes; 1 on a cluster.
#threads = 1
# Where nodes are. Left out: "local", processes of this machine; "ray": on a Ray cluster, which
# docs/how-to/run-on-a-cluster.md sets up. ray is said with it alone; without an address the service
# starts a cluster on this machine. Examples:
#executor = "ray"
#ray = { address = "10.0.0.1:6379", lease_seconds = 8.0, missing_seconds = 15.0 }

# Where a request leaves it to the market: the longest row in tokens, and the share of a node's slot
# that one job takes at most.
#max_length = 512
#share = 0.25

# What energy costs, for node types that say their power: USD per MWh, always the same, or a file in
# CSV with the columns t_s and price_usd_per_mwh, an hour or less a line. t_s are seconds: of unix
# time, or from 0 on; beyond its whole days the file is repeated. Examples:
#energy_price = 80.0
#energy_price = "day-ahead.csv"

# Seconds after which a vendor that has not answered is out of an auction.
#quote_seconds = 2.0

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
# Share of what the device was measured to do that is not sold: more where others use it too.
#spare = 0.0
# Nobody is admitted who pays less than energy costs: kilowatts at full load, at the zone's
# energy_price (an example); or else money for a slot at full load, always the same.
#power_kw = 0.4
#energy_cost = 0.0

# Nodes: each is a process, on this machine or on a cluster's.
[[zones.nodes]]
id = "local-0"
type = "local"
# With executor = "ray", the custom resource of its Ray node; left out: auctune: and the node's id.
# An example:
#resource = "auctune:gpu"

# Who mends data, for bids that ask for it: the house, in a process of the service's own.
[zones.house]
#on = true
#name = "house"
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

# Vendors outside, reached over HTTP; each is one more [[zones.vendors]] table, and one more that a
# user's data are shown to if a bid asks for repair. docs/how-to/run-a-vendor.md runs one. The
# secret that it shares with this service is in a variable of the environment, or in a file.
#[[zones.vendors]]
#name = "mender"
#url = "http://127.0.0.1:8900"
#secret_variable = "AUCTUNE_MENDER_SECRET"
#secret_file = "mender.secret"
# Seconds that it may take to take, report or drop an order, and that it may hold an answer back.
#answer_seconds = 30.0
#poll_seconds = 10.0
# Of a data set that it mended:
#max_result_bytes = 536_870_912

# A zone that rents: jobs run on instances that come and go with their price, are charged what they
# use, and never more than a cap. The market is a record that is replayed: a file in CSV with the
# columns t_s, available and price, such as examples/spot/market.csv. Each zone has its own name;
# with the same base as another one, jobs go to the one that does it for least.
#[[zones]]
#kind = "spot"
#name = "rented"
#market = "market.csv"
#slot_seconds = 60.0
# A slot may replay so many seconds of the record, and costs what they do (an example):
#market_slot_seconds = 1800.0
# Money for an instance on demand and an hour, and what owners pay above what instances cost.
#on_demand_price = 1.0
#margin = 0.0
# How it rents, how many jobs at once, and the most instances that one of them holds.
#policy = "robust:risk=0.05"
#jobs = 4
#n_max = 4

# A pool that jobs share, each trained to a loss by its deadline, charged by the second.
#[[zones]]
#kind = "timeshare"
#name = "pool"
#slot_seconds = 60.0
#price_per_second = "0.0010"
#allocator = "headway"

# Sites with data that stay there: a job trains a small network where its data are, for a price that
# is known at once. Each site is a Ray node, on this machine unless ray names a cluster.
#[[zones]]
#kind = "edge"
#name = "sites"
# The network: small, lenet or residual.
#base = "small"
#slot_seconds = 60.0
# What a site has, in units of one's own, and what a worker takes of it.
#sites = [{ id = "site-a", capacity = { cpu = 2.0 } }, { id = "site-b", capacity = { cpu = 2.0 } }]
#worker = { cpu = 1.0 }
# What may cross between all sites in a slot.
#traffic_mb_per_slot = 1000.0

# Users and keys to begin with, added where they are not there yet; from then on they are changed by
# auctune users, auctune teams and auctune keys. With an operator's key here no first key is made.
#[[users]]
#name = "ada"
# Money that may be paid in so many days; left out: any amount.
#budget = "100.00"
#budget_days = 30.0

# A key is 32 random characters or more: here as its SHA-256, or elsewhere as it is.
#[[keys]]
#user = "ada"
# "user" or "operator"
#role = "user"
# What it is called in lists:
#name = ""
#sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
#secret_variable = "AUCTUNE_ADA_KEY"
#secret_file = "ada.key"
"""
