#!/usr/bin/env bash
# Collect what `make gpu WHEELS=FOLDER` needs on a machine without network that has CUDA, torch 2.11
# or later, numba, scipy and pytest: wheels of the pinned releases, about 230 MB.
#   benchmarks/gpu_wheels.sh FOLDER [PYTHON_VERSION]       PYTHON_VERSION of that machine, 3.12
set -euo pipefail
folder=$1 python=${2:-3.12}
here=$(dirname "$0")
packages='accelerate altair annotated-doc annotated-types attrs bitsandbytes datasketch highspy
  fsspec httpcore2 httpx2 jsonschema jsonschema-specifications pandas peft polars polars-runtime-32
  py3langid pyarrow pydantic pydantic-core python-dateutil pytz referencing rpds-py setproctitle six
  structlog tenacity transformers truststore typer typing-extensions typing-inspection tzdata
  vl-convert-python'
pins=$(cat "$here/../constraints.txt" "$here/trl.txt")
packages+=" $(sed -n 's/==.*//p' "$here/trl.txt")"
platforms=$(printf -- '--platform manylinux_2_%s_x86_64 ' 5 12 17 24 27 28 31 34)
for name in $packages; do
  pinned=$(grep -m 1 -iE "^$name==" <<< "$pins" | sed 's/[ ;].*//')
  # shellcheck disable=SC2086  # several words
  python3 -m pip download --quiet --no-deps --only-binary=:all: --python-version "$python" \
    --implementation cp $platforms --platform manylinux2014_x86_64 --dest "$folder" "${pinned:-$name}"
done
du -sm "$folder"
