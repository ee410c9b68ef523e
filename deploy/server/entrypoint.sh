#!/bin/sh
# Starts the server of the image. Flags are those of `omnigraph-server`; without any, the environment says what to
# serve: OMNIGRAPH_STORE or OMNIGRAPH_CLUSTER. Words that are no flags are a command of their own, such as
# `omnigraph init …`.
set -eu
export OMNIGRAPH_BIND="${OMNIGRAPH_BIND:-0.0.0.0:8080}"

if [ "$#" -gt 0 ]; then
    case "$1" in
    -*) exec omnigraph-server "$@" ;;
    *) exec "$@" ;;
    esac
fi
if [ -z "${OMNIGRAPH_STORE:-}" ] && [ -z "${OMNIGRAPH_CLUSTER:-}" ]; then
    echo "error: there is nothing to serve; set OMNIGRAPH_STORE or OMNIGRAPH_CLUSTER, or give flags" >&2
    exit 64
fi
exec omnigraph-server
