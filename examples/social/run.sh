#!/bin/sh
# Makes the graph of this example, asks it, and changes it on a branch. It can be run again.
set -eu
cd "$(dirname "$0")"
rm -rf social.omni
omnigraph init --schema schema.pg social.omni
omnigraph load --data people.jsonl --mode merge social.omni
omnigraph query colleagues --query queries.gq --params '{"handle":"ada"}' --store social.omni
omnigraph branch create tidy --uri social.omni
omnigraph diff main tidy --uri social.omni
omnigraph branch merge tidy --uri social.omni
omnigraph log social.omni
