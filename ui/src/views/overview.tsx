// The first view: a picture of a sample, what there is, and what could be asked.
import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { api, type Commit, type GraphEdge, type GraphNode, type NodeType } from "../api";
import { GraphView } from "../drawing/graph-view";
import { GraphModel, keyOf } from "../drawing/model";
import { copy, counted, Failure, CommitWords, Icon, initials, Mark, number, Time } from "../parts";
import { lookAtType, questions, sampleNodes, sampleOf, type Made } from "../query/made";
import { openText, runSoon } from "../query/tabs";
import { branch, branches, catalog, commits, failure, go, isPast, lookAt, noWriting, refresh, round, rows, snapshot, stored, target } from "../state";
import { session } from "../session";
import { openStored } from "./stored";

/** So many types of edges, and so many edges of each, are in the picture. */
const EDGE_TYPES = 12;
const SAMPLE = 40;

export function ask(made: Made): void {
  openText(made.name, made.text);
  if (!/query \w+\(\$/.test(made.text)) runSoon.value++;
  go("query");
}

export function OverviewView() {
  const types = catalog.value;
  const model = useMemo(() => new GraphModel(() => target.value), []);
  const error = useSignal<unknown>(null);
  const captions = useSignal<ReadonlyMap<string, string[]>>(new Map());
  const drawn = useSignal(false);
  useEffect(() => {
    if (types === null || snapshot.value === null) return;
    let gone = false;
    error.value = null;
    void sample().then(
      ({ nodes, edges }) => {
        if (gone) return;
        model.reset({ nodes: [...nodes.values()], edges: [...edges.values()] });
        drawn.value = true;
        const found = new Map<string, string[]>();
        for (const node of nodes.values()) {
          const few = found.get(node.type) ?? [];
          if (few.length < 3) found.set(node.type, [...few, node.caption]);
        }
        captions.value = found;
      },
      (failed: unknown) => {
        if (!gone) error.value = failed;
      },
    );
    return () => {
      gone = true;
    };
  }, [snapshot.value?.graph_commit_id, target.value, round.value, types === null]);
  if (types === null) return <main id="main" class="overview"><h1 class="hidden">Overview</h1></main>;
  const full = types.nodes.filter((type) => (rows.value.get(`node:${type.name}`) ?? 0) > 0);
  const edges = [...rows.value].filter(([key]) => key.startsWith("edge:")).reduce((sum, [, count]) => sum + count, 0);
  const nodes = [...rows.value].filter(([key]) => key.startsWith("node:")).reduce((sum, [, count]) => sum + count, 0);
  return (
    <main id="main" class="overview">
      <div class="head">
        <h1>{session.value?.graph === "default" ? "Overview" : session.value?.graph}</h1>
        <p class="soft">
          {counted(nodes, "node")} of {counted(full.length, "type")}, {counted(edges, "edge")}
        </p>
        <span class="gap" />
        <button class="button main" onClick={() => { openText("query", newText(types.nodes)); go("query"); }}>
          <Icon name="code" /> New query
        </button>
      </div>
      <div class="columns">
        <div class="left">
          {nodes === 0 && snapshot.value !== null ? (
            <Empty />
          ) : error.value !== null && failure.value === null ? (
            <Failure error={error.value} />
          ) : (
            <GraphView
              model={model}
              empty={drawn.value ? "There is nothing to draw." : ""}
              note="A sample: up to 40 edges of each type. Click a node to look at it, double click to follow its edges."
            />
          )}
          {full.length > 0 && <Cards types={full} captions={captions.value} />}
        </div>
        <aside class="right" aria-label="What to ask, and what happened">
          <Ask />
          <h2>Lately</h2>
          <ul class="lately">
            {commits.value.slice(0, 5).map((commit) => (
              <Latest key={commit.graph_commit_id} commit={commit} />
            ))}
          </ul>
          <h2>Branches</h2>
          <ul class="lately">
            {branches.value.slice(0, 8).map((name) => (
              <li key={name}>
                <Icon name="branch" />
                <button class="bare" onClick={() => lookAt(name === "main" ? {} : { branch: name })}>
                  {name}
                </button>
                {name === branch.value && !isPast.value && <span class="r">you look at it</span>}
              </li>
            ))}
          </ul>
        </aside>
      </div>
    </main>
  );
}

const OPERATIONS: Record<string, string> = { init: "plus", load: "folder", mutation: "pencil", branch_merge: "branch", schema_apply: "schema" };

/** One of the newest commits: a click looks at the state that it left. */
function Latest({ commit }: { commit: Commit }) {
  const { actor_id, operation, graph_commit_id } = commit;
  return (
    <li>
      <span class="face" aria-hidden="true">{actor_id === null ? <Icon name={OPERATIONS[operation] ?? "check"} /> : initials(actor_id)}</span>
      <button class="bare cut-off" title={`Look at the graph as ${operation} ${graph_commit_id} left it`} onClick={() => lookAt({ snapshot: graph_commit_id })}>
        <CommitWords commit={commit} />
      </button>
      <span class="r">
        <Time micros={commit.created_at} />
      </span>
    </li>
  );
}

const newText = (types: readonly NodeType[]): string => {
  const first = types[0];
  return first === undefined ? "" : lookAtType(first).text;
};

function Ask() {
  const types = catalog.value!;
  // Those that say what they tell come first.
  const reads = stored.value.filter((each) => !each.mutation);
  const known = [...reads.filter((each) => each.description), ...reads.filter((each) => !each.description)].slice(0, 3);
  const made = questions(types, rows.value).slice(0, 6 - known.length);
  if (known.length + made.length === 0) return null;
  return (
    <>
      <h2>Ask something</h2>
      <ul class="ask">
        {known.map((each) => (
          <li key={`stored ${each.name}`}>
            <button class="bare" onClick={() => openStored(each)}>
              <Icon name="bookmark" />
              <span>
                {each.description || titled(each.name)}
                <code>{`${each.name}(${each.params.map((param) => `$${param.name}`).join(", ")})`}</code>
              </span>
            </button>
          </li>
        ))}
        {made.map((each) => (
          <li key={each.name}>
            <button class="bare" onClick={() => ask(each)}>
              <Icon name="play" />
              <span>
                {each.title}
                <code>{each.about}</code>
              </span>
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}

/** What a name says, as words: `by_year` is "By year". */
const titled = (name: string): string => name.charAt(0).toUpperCase() + name.slice(1).replaceAll("_", " ");

const Cards = ({ types, captions }: { types: readonly NodeType[]; captions: ReadonlyMap<string, string[]> }) => (
  <ul class="cards" aria-label="Types">
    {types.slice(0, 60).map((type) => (
      <li key={type.name}>
        <button class="card bare" title={type.description ?? `Look at some of ${type.name}`} onClick={() => ask(lookAtType(type))}>
          <span class="top">
            <Mark type={type.name} />
            <b>{type.name}</b>
            <b class="r">{number(rows.value.get(`node:${type.name}`) ?? 0)}</b>
          </span>
          <span class="soft cut-off" dir="auto">
            {(captions.get(type.name) ?? []).join(", ").slice(0, 200)}
          </span>
          <code class="cut-off">{type.properties.map((each) => each.name).join(" ")}</code>
        </button>
      </li>
    ))}
  </ul>
);

/** The three ways to fill a graph. */
function Empty() {
  const lines = ["omnigraph load GRAPH records.jsonl", "omnigraph examples DIR"];
  const error = useSignal<unknown>(null);
  const busy = useSignal(false);
  const load = async (file: File | undefined) => {
    if (file === undefined || noWriting.value !== "" || busy.value) return;
    busy.value = true;
    error.value = null;
    try {
      await api.load(file, branch.value);
      refresh();
    } catch (failed) {
      error.value = failed;
    } finally {
      busy.value = false;
    }
  };
  return (
    <div
      class="empty"
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        void load(event.dataTransfer?.files[0]);
      }}
    >
      <h2>There is nothing in this graph yet</h2>
      <p class="soft">Drop a file of JSON lines here, or choose one:</p>
      <label class="button" title={noWriting.value}>
        {busy.value ? "Loading …" : `Load a file into ${branch.value}`}
        <input class="hidden" type="file" accept=".jsonl,.ndjson" disabled={noWriting.value !== "" || busy.value} onChange={(event) => void load(event.currentTarget.files?.[0])} />
      </label>
      {noWriting.value !== "" && <p class="soft small">{noWriting.value}</p>}
      {error.value !== null && <Failure error={error.value} retry={() => (error.value = null)} />}
      <p class="soft">Or in a terminal, records of its types or one of the examples:</p>
      {lines.map((line) => (
        <p key={line}>
          <code>{line}</code>{" "}
          <button class="button small" onClick={() => void copy(line, "Line")}>
            Copy
          </button>
        </p>
      ))}
    </div>
  );
}

/** So many reads of one page a server runs at once; more would wait there, and be refused if it is busy. */
const AT_ONCE = 4;

/** Begin a few at once, and the others as those end; return what all of them found. */
async function inTurns<T>(asked: readonly (() => Promise<T>)[]): Promise<T[]> {
  const found: T[] = [];
  let next = 0;
  const work = async () => {
    for (let at = next++; at < asked.length; at = next++) found[at] = await asked[at]!();
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return found;
}

/** The first edges of every type with their ends; without edges the first nodes. */
async function sample(): Promise<{ nodes: Map<string, GraphNode>; edges: Map<string, GraphEdge> }> {
  const types = catalog.peek()!, at = target.peek(), counts = rows.peek();
  const edgeTypes = types.edges.filter((edge) => (counts.get(`edge:${edge.name}`) ?? 0) > 0 && types.nodes.some((node) => node.name === edge.from)).slice(0, EDGE_TYPES);
  const asked =
    edgeTypes.length > 0
      ? edgeTypes.map((edge) => () => api.subgraph({ query: sampleOf(edge, SAMPLE), edges: [edge.name], limit: SAMPLE }, at))
      : types.nodes
          .filter((node) => (counts.get(`node:${node.name}`) ?? 0) > 0)
          .slice(0, EDGE_TYPES)
          .map((node) => () => api.subgraph({ query: sampleNodes(node.name, 12) }, at));
  const found = await inTurns(asked);
  const nodes = new Map(found.flatMap((each) => each.nodes).map((node) => [keyOf(node), node]));
  const edges = new Map(found.flatMap((each) => each.edges).map((edge) => [`${edge.type} ${edge.id}`, edge]));
  return { nodes, edges };
}
