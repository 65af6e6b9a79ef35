"""Keys that auctune.toml once had, and the values that hold instead: no operator turned them.

Each value is a constant beside the code that uses it. Here it is said to those whose file still has
the key, and on the reference page.
"""

FIXED_VALUES: dict[str, tuple[str, str]] = {
    "limits.burst": ("twice `requests_per_second`", "requests of a key at once"),
    "limits.streams": ("20", "event streams of a key that are open at once"),
    "limits.requests": (
        "500",
        "requests of a user that are not answered yet, streams included",
    ),
    "limits.connections": (
        "4,096",
        "connections of all clients together, and at most half of the files that the process may "
        "open. One more closes the one that has waited longest without a request, for a body, or "
        "for its client to read",
    ),
    "limits.uploads": (
        "20",
        "uploads of a user at once; they count as files, and with their bytes",
    ),
    "limits.uploads_per_day": (
        "10,000",
        "uploads of a user within the last 24 hours, deleted ones included, as each of them is "
        "examined",
    ),
    "limits.upload_bytes_per_day": ("50 GiB", "bytes of these uploads"),
    "limits.examination_seconds": (
        "1,800 s",
        "time limit for the examination of a file, which is 60 s and 1 s per 50 kB, at most this. "
        "A file that takes longer is refused, and has to be split",
    ),
    "limits.bid_bytes_per_day": (
        "100,000,000",
        "bytes of a user's bids, accepted quotes, pauses and resumes, as `bids_per_day` counts "
        "them; after a restart, of their events. A bid is stored as about twice its request and "
        "3 kB",
    ),
    "limits.webhooks": ("10", "webhooks of a user"),
    "limits.reserved_bytes": (
        "1 GiB",
        "kept free on the disk of the data folder: with less, uploads and bids are refused (507), "
        "and running jobs continue",
    ),
    "webhooks.max_attempts": ("8", "attempts of one delivery, over 7.6 hours"),
    "webhooks.initial_backoff_seconds": (
        "5 s",
        "wait after the first attempt; each further wait is four times as long",
    ),
    "inference.niceness": (
        "19",
        "of a process on the CPU: sold slots come first",
    ),
    "inference.sold_share": (
        "0.25",
        "of its time, that a process on a CPU works while something trains on this machine, so "
        "that sold slots are not late; vLLM works all of its time",
    ),
    "inference.max_waiting": (
        "100",
        "requests of a user for a base that have not begun; beyond it 429",
    ),
    "inference.idle_seconds": (
        "600 s",
        "time without a request after which a process ends, and frees its memory",
    ),
    "zones.measure_seconds": (
        "60 s, and 20 s for the base `tiny`",
        "time limit for measuring a device, without loading the base; [what is left out]"
        "(../how-to/profile-a-device.md#read-it) sells too little rather than too much. "
        "`auctune profile --seconds` measures longer",
    ),
    "zones.sample_tokens": (
        "64",
        "kind `auction`: tokens of a sample, the unit in which work is priced, also by the "
        "`compute_low` and `compute_high` of `[zones.auction]`",
    ),
    "zones.backend": (
        "`auto`",
        "kind `auction`: how tokens meet the matrices of their adapters, chosen by device. See "
        "[The trainer](../explanation/training.md#what-is-fused)",
    ),
    "zones.quote_seconds": (
        "2 s",
        "kind `auction`: time after which an external vendor that has not answered is left out of "
        "an auction",
    ),
    "zones.builtin_vendor.name": ("`builtin`", "name of the built-in vendor"),
    "zones.builtin_vendor.min_characters": ("2", "shorter rows are left out"),
    "zones.builtin_vendor.max_characters": ("100,000", "longer rows are left out"),
    "zones.builtin_vendor.similarity": (
        "0.9",
        "rows that are this similar to another row are left out",
    ),
    "zones.vendors.answer_seconds": (
        "30 s",
        "to accept, report or drop an order, retries included",
    ),
    "zones.vendors.poll_seconds": (
        "10 s",
        "most time between two requests for the state of an order",
    ),
    "zones.vendors.max_result_bytes": ("512 MiB", "size of a repaired data set"),
    "zones.ray.lease_seconds": (
        "15 s",
        "time without an answer of a node's worker after which it is killed, and its slot starts "
        "on another one. A worker that is cut off ends itself after twice that time; what it "
        "trains meanwhile cannot be saved",
    ),
    "zones.ray.missing_seconds": (
        "15 s",
        "time without a place on the cluster after which a node is lost until it has one, or a "
        "spot instance is preempted",
    ),
    "zones.ray.spot_resource": (
        "`auctune:spot`",
        "custom resource of the Ray nodes for spot instances",
    ),
    "zones.ray.on_demand_resource": (
        "`auctune:on-demand`",
        "custom resource of the Ray nodes for on-demand instances",
    ),
    "zones.n_min": ("1", "kind `spot`: least number of GPUs of a job while it runs"),
    "zones.changeover": (
        "`by_instance`, but `by_total` if `n_max` is more than 32 and `instance_start_seconds` "
        "is not given",
        "kind `spot`: [what a change of GPUs costs]"
        "(../explanation/spot.md#what-a-change-of-gpus-costs) in plans and estimates",
    ),
    "zones.mu1": (
        "0.9",
        "kind `spot`, by total: effective share of a slot that begins with more GPUs than the one "
        "before",
    ),
    "zones.mu2": (
        "0.95",
        "kind `spot`, by total: effective share of a slot that begins with fewer GPUs",
    ),
    "zones.prefork": (
        'true with `provider = "local"`',
        "kind `spot`: workers are forked from a process that has loaded everything",
    ),
    "zones.checkpoint_seconds": (
        "30 s",
        "kind `spot`: time between checkpoints within a slot; there is always one at its end",
    ),
    "zones.slots": ("10,080", "kind `timeshare`: how many slots ahead a deadline may be"),
    "zones.chunk_mb": (
        "0.01",
        "kind `edge`: MB of a chunk of rows, a token counted as 4 bytes: the rows of a site are "
        "cut into chunks of at most this size, each trained for all epochs in one slot at one site",
    ),
    "zones.step_seconds": (
        "0.01 s",
        "kind `edge`: latency of an optimizer step: to the workers and back",
    ),
    "zones.pricing.kind": (
        "`share`",
        "kind `edge`: prices [by the share that is sold](../explanation/edge.md#prices), from a "
        "reserve price",
    ),
    "zones.pricing.weight": (
        "0.12",
        "kind `edge`: price of the whole market in one slot, while nothing of it is sold, as a "
        "share of `reserve_value`",
    ),
    "zones.pricing.rise": (
        "10",
        "kind `edge`: ratio of the price of the last unit to that of the first",
    ),
    "zones.pricing.base": ("none", "kind `edge`: price bases, which prices by share do not have"),
}
"""By path: the value, and what it says. Of a zone's key the kind is named, if not all have it."""
