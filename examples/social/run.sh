#!/bin/sh
# Makes the graph of this example, asks it, and changes it on a branch. It can be run again.
set -eu
cd "$(dirname "$0")"
rm -rf social.omni
omnigraph init --schema schema.pg social.omni
omnigraph load social.omni people.jsonl
omnigraph query social.omni --params '{"handle":"ada"}' -e 'query knows($handle: String) {
  match { $me: Person { handle: $handle }  $me knows $other }
  return { $other.name as name, $other.level as level }
}'
omnigraph branch create social.omni tidy
omnigraph mutate social.omni promote --query queries.gq --params '{"handle":"charles"}' --branch tidy
omnigraph diff social.omni main tidy
omnigraph branch merge social.omni tidy
omnigraph log social.omni
