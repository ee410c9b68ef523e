#!/bin/sh
# Makes the graph of this example, asks it, and changes it on a branch. It can be run again.
set -eu
cd "$(dirname "$0")"
rm -rf social.omni
omnigraph init --schema schema.pg social.omni
omnigraph load --data people.jsonl --mode merge social.omni
omnigraph query --store social.omni --params '{"handle":"ada"}' -e 'query knows($handle: String) {
  match { $me: Person { handle: $handle }  $me knows $other }
  return { $other.name as name, $other.level as level }
}'
omnigraph branch create tidy --uri social.omni
omnigraph mutate promote --query queries.gq --params '{"handle":"charles"}' --branch tidy --store social.omni
omnigraph diff main tidy --uri social.omni
omnigraph branch merge tidy --uri social.omni
omnigraph log social.omni
