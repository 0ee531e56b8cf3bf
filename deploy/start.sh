#!/bin/sh
# What a container runs. Its root may be read-only: kernels live in /tmp, which begins with those of the image.
set -eu
kernels=/opt/driftbandits/kernels
export DRIFTBANDITS_CACHE_DIR="${DRIFTBANDITS_CACHE_DIR:-/tmp/driftbandits-kernels}"
if [ -d "$kernels" ] && [ ! -e "$DRIFTBANDITS_CACHE_DIR" ]; then
    cp -R "$kernels" "$DRIFTBANDITS_CACHE_DIR"
    chmod -R u+rwX,go-rwx "$DRIFTBANDITS_CACHE_DIR"
fi
exec driftbandits serve --host 0.0.0.0 --port 8080 --log json "$@"
