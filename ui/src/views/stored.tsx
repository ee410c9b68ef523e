// Stored queries: what a server keeps under a name, with a form for each.
import { signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api, type MutationAnswer, type QueryAnswer, type StoredQuery } from "../api";
import { copy, counted, Dialog, Divider, Failure, Icon, leftStyle, useLeftWidth } from "../parts";
import { ofStored, ParameterForm, valuesOf } from "../query/params";
import { Results, type Result } from "../results/results";
import { session } from "../session";
import { branch, go, noWriting, refresh, stored, target } from "../state";

const chosenStored = signal<string | null>(null);
/** Counts up when the chosen query is to run as soon as it is shown. */
const runSoon = signal(0);

/** Show a stored query, and run it if it asks for nothing. */
export function openStored(query: StoredQuery): void {
  chosenStored.value = query.name;
  if (!query.mutation && query.params.every((each) => each.nullable)) runSoon.value++;
  go("stored");
}

export function StoredView() {
  const wide = useLeftWidth();
  const all = stored.value;
  const chosen = all.find((each) => each.name === chosenStored.value) ?? all[0];
  return (
    <main id="main" class="query stored" style={leftStyle(wide)}>
      <div class="write">
        <h1 class="pad">Stored queries</h1>
        <ul class="names" aria-label="Stored queries">
          {all.map((each) => (
            <li key={each.name}>
              <button class="bare" aria-current={each === chosen ? "true" : undefined} onClick={() => (chosenStored.value = each.name)}>
                <Icon name={each.mutation ? "pencil" : "bookmark"} />
                <span>
                  <code>{each.name}</code>
                  {each.description !== undefined && <span class="soft small">{each.description}</span>}
                </span>
              </button>
            </li>
          ))}
        </ul>
        {all.length === 0 && (
          <p class="pad soft">
            There are none. Put <code>.gq</code> files into a directory and start the server, or <code>omnigraph ui</code>, with <code>--queries DIR</code>.
          </p>
        )}
        <Divider wide={wide} label="Width of the list" />
      </div>
      {chosen === undefined ? <div class="result" /> : <Invoke key={chosen.name} query={chosen} />}
    </main>
  );
}

function Invoke({ query }: { query: StoredQuery }) {
  const typed = useSignal<Record<string, string>>({});
  const wrong = useSignal<{ field: string; why: string } | null>(null);
  const result = useSignal<Result | null>(null);
  const written = useSignal<MutationAnswer | null>(null);
  const error = useSignal<unknown>(null);
  const busy = useSignal(false);
  const asking = useSignal(false);
  const fields = ofStored(query.params);
  const run = async () => {
    const found = valuesOf(fields, typed.value);
    if ("field" in found) {
      wrong.value = found;
      return;
    }
    wrong.value = null;
    busy.value = true;
    const since = performance.now(), at = { ...target.value };
    try {
      const answer = await api.invoke(query.name, found.values, at, query.mutation);
      if (query.mutation) {
        written.value = answer as MutationAnswer;
        refresh();
      } else result.value = { ask: null, target: at, answer: answer as QueryAnswer, ms: performance.now() - since };
      error.value = null;
    } catch (failed) {
      error.value = failed;
    } finally {
      busy.value = false;
    }
  };
  useEffect(() => {
    if (runSoon.value === 0) return;
    runSoon.value = 0;
    void run();
  }, [runSoon.value]);
  const start = () => {
    if (query.mutation) asking.value = true;
    else void run();
  };
  const blocked = query.mutation ? noWriting.value : "";
  return (
    <div class="result">
      <div class="invoke">
        <h2>{query.description ?? query.name}</h2>
        {query.instruction !== undefined && <p class="soft">{query.instruction}</p>}
        <ParameterForm fields={fields} typed={typed.value} wrong={wrong.value} onType={(name, text) => (typed.value = { ...typed.value, [name]: text })} onEnter={start} />
        <div class="acts">
          <button class="button main" disabled={busy.value || blocked !== ""} title={blocked} onClick={start}>
            <Icon name={query.mutation ? "pencil" : "play"} /> {query.mutation ? `Write to ${branch.value}` : "Run"}
          </button>
          <button class="button" onClick={() => void copy(curl(query, typed.value), "curl line")}>
            Copy curl
          </button>
          <button class="button" onClick={() => void copy(python(query, typed.value), "Python call")}>
            Copy Python
          </button>
        </div>
      </div>
      {error.value !== null && <Failure error={error.value} retry={start} />}
      {written.value !== null && (
        <p class="nothing">
          {counted(written.value.affected_nodes, "node")} and {counted(written.value.affected_edges, "edge")} written to {written.value.branch}.
        </p>
      )}
      {result.value !== null && <Results result={result.value} />}
      {result.value === null && written.value === null && error.value === null && (
        <p class="nothing">{busy.value ? "Running …" : query.mutation ? "What it writes is told here." : "Run it to see its picture and its rows."}</p>
      )}
      {asking.value && (
        <Dialog title="Write" close={() => (asking.value = false)}>
          <h2>Write to {branch.value}?</h2>
          <p class="soft">{query.name} changes the branch. It makes a commit, which can be reverted.</p>
          <div class="acts">
            <button class="button" onClick={() => (asking.value = false)}>
              Cancel
            </button>
            <button class="button main" onClick={() => { asking.value = false; void run(); }}>
              Write to {branch.value}
            </button>
          </div>
        </Dialog>
      )}
    </div>
  );
}

function bodyOf(query: StoredQuery, typed: Record<string, string>): string {
  const found = valuesOf(ofStored(query.params), typed);
  return JSON.stringify({ params: "values" in found ? found.values : {}, ...target.value });
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

function curl(query: StoredQuery, typed: Record<string, string>): string {
  const url = `${location.origin}/graphs/${session.value?.graph ?? "default"}/queries/${query.name}`;
  return `curl -X POST -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' ${quoted(url)} -d ${quoted(bodyOf(query, typed))}`;
}

function python(query: StoredQuery, typed: Record<string, string>): string {
  const found = valuesOf(ofStored(query.params), typed);
  const params = JSON.stringify("values" in found ? found.values : {});
  return `import json, os\nfrom omnigraph.client import Client\n\nwith Client(${JSON.stringify(location.origin)}, ${JSON.stringify(session.value?.graph ?? "default")}, os.environ.get("TOKEN")) as client:\n    answer = client.invoke(${JSON.stringify(query.name)}, json.loads(${JSON.stringify(params)}))\n`;
}
