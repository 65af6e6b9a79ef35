#!/usr/bin/env bash
# A machine with GPUs. It ends when its cluster does; a supervisor (systemd: Restart=always) starts
# it again.
# Usage: node.sh HEAD_ADDRESS NUM_GPUS
set -euo pipefail
# The file of the token that Ray asks of all who connect: docs/how-to/run-on-a-cluster.md.
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=/shared/auctune/ray-token
head=$1 gpus=$2
exec ray start --address "$head:6379" --num-gpus "$gpus" --resources '{"auctune:gpu": 1}' \
  --disable-usage-stats --block
