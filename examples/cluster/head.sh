#!/usr/bin/env bash
# The machine of the service: the cluster's head, which trains nothing, and the market beside it.
# Usage: head.sh ADDRESS (of this machine, as the others reach it)
set -euo pipefail
# The file of the token that Ray asks of all who connect: docs/how-to/run-on-a-cluster.md.
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=/shared/auctune/ray-token
address=$1
ray start --head --node-ip-address "$address" --port 6379 --num-cpus 0 --num-gpus 0 \
  --disable-usage-stats --include-dashboard false
export XDG_CACHE_HOME=/shared/auctune/cache
exec auctune serve --config /shared/auctune/auctune.toml --data /shared/auctune/data
