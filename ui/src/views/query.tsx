// The query view: texts in tabs, parameters, and the answer beside them.
import { batch, effect, signal } from "@preact/signals";
import type { EditorView } from "@codemirror/view";
import { useEffect } from "preact/hooks";
import { api, ApiError, type Ask, type MutationAnswer } from "../api";
import { ago, copy, counted, Dialog, Divider, Failure, Icon, Key, leftStyle, save, tell, took, useLeftWidth } from "../parts";
import { Editor } from "../query/editor";
import { ofDeclaration, ParameterForm, valuesOf, type Field } from "../query/params";
import { choicesOf, declarationAt, type Declaration } from "../query/scan";
import { choose, close, openText, remember, runs, runSoon, setParam, setText, tab, tabs, type Run } from "../query/tabs";
import { Results, type Result } from "../results/results";
import { session } from "../session";
import { branch, catalog, fragment, linked, noWriting, refresh, said, snapshot, target } from "../state";

const place = signal(0);
const wrong = signal<{ field: string; why: string } | null>(null);
const running = signal<{ since: number; stop: AbortController } | null>(null);
const elapsed = signal(0);
const result = signal<Result | null>(null);
const written = signal<MutationAnswer | null>(null);
const failed = signal<unknown>(null);
const confirming = signal<{ ask: Ask; name: string } | null>(null);
let editor: EditorView | null = null;

// Another graph has other answers.
let graph = session.value?.graph;
effect(() => {
  const now = session.value?.graph;
  if (now === undefined || now === graph) return;
  graph = now;
  batch(() => {
    result.value = null;
    written.value = null;
    failed.value = null;
  });
});

/** Run the query at the cursor; one that writes is asked about first. */
export function run(): void {
  const now = tab.value;
  if (now === undefined || running.value !== null) return;
  const declared = declarationAt(now.text, place.value);
  if (declared?.isMutation && noWriting.value !== "") return tell(noWriting.value);
  const fields = fieldsOf(now.text, declared);
  const found = valuesOf(fields, now.params);
  if ("field" in found) {
    wrong.value = found;
    document.getElementById(`param-${found.field}`)?.focus();
    return;
  }
  wrong.value = null;
  const ask: Ask = { query: now.text, ...(declared?.name ? { name: declared.name } : {}), ...(fields.length === 0 ? {} : { params: found.values }) };
  if (declared?.isMutation) confirming.value = { ask, name: declared.name };
  else void execute(ask, declared?.name ?? now.name, false);
}

/** The form of a declaration's parameters. */
function fieldsOf(text: string, declared: Declaration | null): Field[] {
  if (declared === null || declared.params.length === 0) return [];
  const types = catalog.value;
  return ofDeclaration(declared.params, types === null ? new Map() : choicesOf(text.slice(declared.from, declared.to), types));
}

export function stop(): void {
  running.value?.stop.abort();
}

async function execute(ask: Ask, name: string, writes: boolean): Promise<void> {
  const controller = new AbortController();
  const at = { ...target.value };
  const since = performance.now();
  running.value = { since, stop: controller };
  elapsed.value = 0;
  const ticking = setInterval(() => (elapsed.value = performance.now() - since), 100);
  const kept: Run = { name, text: ask.query, params: tab.value?.params ?? {}, target: at, rows: 0, ms: 0, at: Date.now() };
  try {
    if (writes) {
      written.value = await api.mutate(ask, branch.value, snapshot.value?.graph_commit_id ?? null, controller.signal);
      result.value = null;
      kept.wrote = true;
      kept.rows = written.value.affected_nodes + written.value.affected_edges;
      refresh();
    } else {
      const answer = await api.query(ask, at, controller.signal);
      written.value = null;
      result.value = { ask, target: at, answer, ms: performance.now() - since };
      kept.rows = answer.total_rows ?? answer.row_count;
    }
    failed.value = null;
    said.value = writes ? "Written" : counted(kept.rows, "row");
  } catch (error) {
    kept.failed = true;
    failed.value = (error as Error).name === "AbortError" ? null : error;
    if (failed.value === null) tell("Stopped");
    if (error instanceof ApiError && error.body.param !== undefined) wrong.value = { field: error.body.param, why: error.message };
  } finally {
    clearInterval(ticking);
    kept.ms = Math.round(performance.now() - since);
    remember(kept);
    running.value = null;
  }
}

export function QueryView() {
  const wide = useLeftWidth();
  useEffect(() => {
    const link = linked.value;
    if (link?.text !== undefined) {
      openText("shared", link.text, readParams(link.params));
      linked.value = null;
    }
    if (tabs.value.length === 0) openText("query", "");
  }, [linked.value, tabs.value.length === 0]);
  useEffect(() => {
    if (runSoon.value === 0) return;
    runSoon.value = 0;
    place.value = 0;
    run();
  }, [runSoon.value]);
  const now = tab.value;
  const declared = now === undefined ? null : declarationAt(now.text, place.value);
  const fields = now === undefined ? [] : fieldsOf(now.text, declared);
  return (
    <main id="main" class="query" style={leftStyle(wide)}>
      <h1 class="hidden">Query</h1>
      <div class="write">
        <TabRow />
        {now !== undefined && (
          <Editor
            key={now.id}
            text={now.text}
            onChange={(text) => setText(now.id, text)}
            onCursor={(next) => (place.value = next)}
            onRun={run}
            onView={(view) => (editor = view)}
          />
        )}
        {now !== undefined && fields.length > 0 && (
          <ParameterForm fields={fields} typed={now.params} wrong={wrong.value} onType={(name, text) => setParam(now.id, name, text)} onEnter={run} />
        )}
        <RunRow isMutation={declared?.isMutation ?? false} name={declared?.name ?? ""} />
        <Runs />
        <Divider wide={wide} label="Width of the text" />
      </div>
      <Answer />
      {confirming.value !== null && <Confirm ask={confirming.value.ask} name={confirming.value.name} />}
    </main>
  );
}

function readParams(text: string | undefined): Record<string, string> {
  try {
    const found: unknown = JSON.parse(text || "{}");
    return typeof found === "object" && found !== null ? Object.fromEntries(Object.entries(found).map(([name, value]) => [name, String(value)])) : {};
  } catch {
    return {};
  }
}

const TabRow = () => (
  <div class="row-of">
    <div class="tabs" role="tablist" aria-label="Texts">
      {tabs.value.map((each) => (
        <span class="tab-of" key={each.id}>
          <button role="tab" aria-selected={each.id === tab.value?.id} onClick={() => choose(each.id)}>
            {each.name || "query"}
          </button>
          {tabs.value.length > 1 && (
            <button class="shut" aria-label={`Close ${each.name || "query"}`} onClick={() => close(each.id)}>
              <Icon name="close" />
            </button>
          )}
        </span>
      ))}
    </div>
    <label class="tool" title="Open a .gq file">
      <Icon name="folder" />
      <input class="hidden" type="file" accept=".gq,text/plain" aria-label="Open a .gq file" onChange={(event) => void openFile(event.currentTarget)} />
    </label>
    <button class="tool" aria-label="Save as a .gq file" title="Save as a .gq file" onClick={saveFile}>
      <Icon name="load" />
    </button>
    <button class="tool" aria-label="New text" title="New text" onClick={() => openText("query", `query ask_${tabs.value.length + 1}() {\n  \n}\n`)}>
      <Icon name="plus" />
    </button>
  </div>
);

const MOST_TEXT = 1_048_576;

async function openFile(input: HTMLInputElement): Promise<void> {
  const file = input.files?.[0];
  input.value = "";
  if (file === undefined) return;
  if (file.size > MOST_TEXT) tell("That file is larger than 1 MiB, the most that a server takes.");
  else openText(file.name.replace(/\.gq$/, ""), await file.text());
}

function saveFile(): void {
  const now = tab.value;
  if (now !== undefined) save(`${now.name || "query"}.gq`, new Blob([now.text], { type: "text/plain" }));
}

function RunRow({ isMutation, name }: { isMutation: boolean; name: string }) {
  const blocked = isMutation ? noWriting.value : "";
  if (running.value !== null)
    return (
      <div class="run-row">
        <span class="soft">{(elapsed.value / 1000).toFixed(1)} s</span>
        <span class="gap" />
        <button class="button" onClick={stop}>
          <Icon name="stop" /> Stop <Key>Ctrl .</Key>
        </button>
      </div>
    );
  return (
    <div class="run-row">
      <button class="button small" onClick={() => void copyLink()}>
        <Icon name="link" /> Copy link
      </button>
      <span class="gap" />
      {blocked !== "" && <span class="soft small">{blocked}</span>}
      <button class="button main" disabled={blocked !== ""} onClick={run}>
        <Icon name={isMutation ? "pencil" : "play"} /> {isMutation ? `Write to ${branch.value}` : "Run"}
        <span class="hidden"> {name}</span> <Key>Ctrl ↵</Key>
      </button>
    </div>
  );
}

async function copyLink(): Promise<void> {
  const now = tab.value;
  if (now === undefined) return;
  const text = now.text.length <= 8192 ? now.text : undefined;
  const link = fragment("query", target.value, text === undefined ? {} : { text, params: JSON.stringify(now.params) });
  await copy(`${location.origin}${location.pathname}${link}`, text === undefined ? "Link, without the text, which is too long for one," : "Link");
}

const Runs = () => (
  <div class="runs">
    <h2>Earlier</h2>
    <ul>
      {runs.value.slice(0, 50).map((each) => (
        <li key={each.at}>
          <button class="bare row" title={each.text} onClick={() => openText(each.name, each.text, each.params)}>
            <Icon name={each.failed ? "alert" : each.wrote ? "pencil" : "check"} />
            <span class="mono">
              {each.name} {Object.entries(each.params).map(([name, value]) => `${name}=${value}`).join(" ")}
            </span>
            <span class="r">{each.failed ? "failed" : `${counted(each.rows, "row")} · ${took(each.ms)}`} · {ago(each.at * 1000)}</span>
          </button>
        </li>
      ))}
    </ul>
    {runs.value.length === 0 && <p class="faint pad">What you run is listed here.</p>}
  </div>
);

function Answer() {
  if (failed.value !== null) {
    const error = failed.value;
    // A branch that moved has to be looked at before it is written to.
    const moved = error instanceof ApiError && error.status === 412;
    return (
      <div class="result">
        <Failure error={error} retry={moved ? lookAgain : run} />
        <GoTo error={error} />
      </div>
    );
  }
  if (written.value !== null) {
    const { affected_nodes, affected_edges, commit } = written.value;
    return (
      <div class="result">
        <p class="nothing">
          {counted(affected_nodes, "node")} and {counted(affected_edges, "edge")} written to {written.value.branch}.{commit === null && " Nothing had to change, so there is no commit."}
        </p>
      </div>
    );
  }
  if (result.value === null)
    return (
      <div class="result">
        <p class="nothing">{running.value === null ? "Run a query to see its picture and its rows." : "Running …"}</p>
      </div>
    );
  return <Results result={result.value} />;
}

function lookAgain(): void {
  failed.value = null;
  refresh();
}

function GoTo({ error }: { error: unknown }) {
  const span = error instanceof ApiError ? error.body.span : undefined;
  if (span === undefined) return null;
  return (
    <p class="pad">
      <button
        class="button small"
        onClick={() => {
          const line = editor?.state.doc.line(Math.min(span.line, editor.state.doc.lines));
          if (line !== undefined) editor?.dispatch({ selection: { anchor: Math.min(line.from + span.column - 1, line.to) }, scrollIntoView: true });
          editor?.focus();
        }}
      >
        Go to line {span.line}
      </button>
    </p>
  );
}

const Confirm = ({ ask, name }: { ask: Ask; name: string }) => (
  <Dialog title="Write" close={() => (confirming.value = null)}>
    <h2>
      Write to {branch.value}?
    </h2>
    <p class="soft">
      {name || "This query"} changes the branch {branch.value}. It makes a commit, which can be reverted.
    </p>
    <div class="acts">
      <button class="button" onClick={() => (confirming.value = null)}>
        Cancel
      </button>
      <button
        class="button main"
        onClick={() => {
          confirming.value = null;
          void execute(ask, name, true);
        }}
      >
        Write to {branch.value}
      </button>
    </div>
  </Dialog>
);
