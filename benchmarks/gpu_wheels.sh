#!/usr/bin/env bash
# Collect what `make gpu WHEELS=FOLDER` needs on a machine without network that has CUDA, torch 2.11
# or later, numba, scipy and pytest: wheels of the pinned releases, about 240 MB.
#   benchmarks/gpu_wheels.sh FOLDER [PYTHON_VERSION]       PYTHON_VERSION of that machine, 3.12
set -euo pipefail
folder=$1 python=${2:-3.12}
here=$(dirname "$0")
packages='accelerate alembic altair annotated-doc annotated-types anyio attrs bitsandbytes
  datasketch fastapi fsspec greenlet h11 highspy httpcore2 httptools httpx2 hypothesis idna
  jinja2 jsonschema jsonschema-specifications mako markdown-it-py markupsafe mdurl narwhals
  orjson packaging pandas peft polars polars-runtime-32 prometheus-client psutil psycopg
  psycopg-binary py3langid pyarrow pydantic pydantic-core pygments python-dateutil
  python-multipart pytz referencing rich rpds-py setproctitle shellingham six sniffio
  sortedcontainers sqlalchemy standardwebhooks starlette structlog tenacity threadpoolctl
  transformers truststore typer typing-extensions typing-inspection tzdata uvicorn uvloop
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
