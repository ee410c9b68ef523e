// The answer of a query, four ways: picture, table, JSON and plan. Rows and nodes point at each other.
import { signal, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { api, MOST_ROWS, type Ask, type Phase, type QueryAnswer, type Row, type Target } from "../api";
import { GraphView } from "../drawing/graph-view";
import { GraphModel, keyOf } from "../drawing/model";
import { counted, Failure, number, Tabs, took } from "../parts";
import { ResultJson } from "./json";
import { ResultPlan } from "./plan";
import { ResultTable } from "./table";

export type Way = "graph" | "table" | "json" | "plan";
export const WAYS = [["graph", "Graph"], ["table", "Table"], ["json", "JSON"], ["plan", "Plan"]] as const;
export const way = signal<Way>("graph");

export interface Result {
  /** The text that was run; a stored query has none that the page knows. */
  ask: Ask | null;
  target: Target;
  answer: QueryAnswer;
  ms: number;
}

/** The nodes that the columns of a row name. */
function nodesOf(answer: QueryAnswer, row: Row): { type: string; id: string }[] {
  return answer.schema.flatMap((column) => {
    const value = row[column.name];
    return column.entity?.kind === "node" && typeof value === "string" ? [{ type: column.entity.type, id: value }] : [];
  });
}

/** The rows that name a node: those that its picture stands for. */
function rowsNaming(answer: QueryAnswer, key: string | null): ReadonlySet<number> {
  const found = new Set<number>();
  if (key === null) return found;
  answer.rows.forEach((row, at) => {
    if (nodesOf(answer, row).some((node) => keyOf(node) === key)) found.add(at);
  });
  return found;
}

export function Results({ result, right }: { result: Result; right?: preact.ComponentChildren }) {
  const { answer, ask, target } = result;
  const model = useMemo(() => new GraphModel(() => target), [result]);
  const error = useSignal<unknown>(null);
  const drawn = useSignal("");
  const row = useSignal<number | null>(null);
  const again = useSignal(0);
  const ways = ask === null ? WAYS.filter(([name]) => name !== "plan") : WAYS;
  const shown = ways.some(([name]) => name === way.value) ? way.value : "table";
  const isDrawn = useRef(false);
  useEffect(() => {
    isDrawn.current = false;
    error.value = null;
    row.value = null;
    drawn.value = "";
  }, [result, again.value]);
  useEffect(() => {
    // Only a picture that is looked at is asked for: thousands of nodes take the page a while.
    if (shown !== "graph" || isDrawn.current) return;
    const stop = new AbortController();
    drawn.value = "drawing …";
    const names = new Map(answer.rows.flatMap((each) => nodesOf(answer, each)).map((node) => [keyOf(node), node]));
    const wanted = ask !== null ? ask : { nodes: [...names.values()].slice(0, 5000) };
    if (ask === null && names.size === 0) {
      model.reset({ nodes: [], edges: [] });
      drawn.value = "";
      isDrawn.current = true;
      return;
    }
    api.subgraph(wanted, target, stop.signal).then(
      (found) => {
        model.reset(found);
        isDrawn.current = true;
        const total = found.total_nodes ?? found.nodes.length;
        const cut = total > found.nodes.length ? ` of ${number(total)}` : "";
        drawn.value = `${number(found.nodes.length)}${cut} ${total === 1 ? "node" : "nodes"}, ${counted(found.edges.length, "edge")} matched`;
      },
      (failed: unknown) => {
        if ((failed as Error).name === "AbortError") return;
        error.value = failed;
        drawn.value = "";
      },
    );
    return () => {
      stop.abort();
      if (!isDrawn.current) drawn.value = "";
    };
  }, [result, again.value, shown === "graph"]);
  useEffect(() => {
    // A node that is chosen in the picture chooses its first row.
    return model.selected.subscribe((key) => {
      if (key === null) return;
      const at = answer.rows.findIndex((each) => nodesOf(answer, each).some((node) => keyOf(node) === key));
      if (at >= 0) row.value = at;
    });
  }, [model]);
  const key = model.selected.value;
  const naming = useMemo(() => rowsNaming(answer, key), [answer, key]);
  const chosen = row.value === null ? undefined : answer.rows[row.value];
  const marked = chosen === undefined ? [] : nodesOf(answer, chosen).map(keyOf);
  return (
    <section class="result" aria-label="Results">
      <div class="strip">
        <Tabs label="Results" all={ways} chosen={shown} choose={(next) => (way.value = next)} />
        <p class="said" aria-live="polite">
          {drawn.value !== "" && `${drawn.value} · `}
          {counted(answer.row_count, "row")} · {took(result.ms)}
        </p>
        {right}
      </div>
      {answer.truncated && (
        <p class="cut" role="status">
          The first {number(MOST_ROWS)} of {number(answer.total_rows ?? 0)} rows are here; a `limit` or a narrower match shows the others.
        </p>
      )}
      {answer.row_count === 0 && ask !== null && shown !== "plan" && <WhyNothing ask={ask} target={target} />}
      {shown === "graph" &&
        (error.value !== null ? (
          <Failure error={error.value} retry={() => again.value++} />
        ) : (
          <GraphView model={model} marked={marked} empty={drawn.value === "drawing …" ? "" : answer.row_count === 0 ? "0 rows: this query matches no nodes." : "The columns of this query name no nodes."} />
        ))}
      {shown === "table" && (answer.row_count === 0 ? <p class="nothing">0 rows</p> : <ResultTable answer={answer} chosen={row.value} naming={naming} choose={(next) => (row.value = next)} />)}
      {shown === "json" && <ResultJson answer={answer} />}
      {shown === "plan" && ask !== null && <ResultPlan ask={ask} target={target} />}
    </section>
  );
}

/** Which clause matches nothing: the first step of a profile that has no rows. */
function WhyNothing({ ask, target }: { ask: Ask; target: Target }) {
  const step = useSignal("");
  useEffect(() => {
    let gone = false;
    step.value = "";
    api.explain(ask, target, true).then(
      (found) => {
        if (!gone) step.value = firstEmpty(found.profile ?? [])?.name ?? "";
      },
      () => undefined,
    );
    return () => {
      gone = true;
    };
  }, [ask]);
  return step.value === "" ? null : (
    <p class="cut" role="status">
      Nothing is left after <code>{step.value}</code>
    </p>
  );
}

function firstEmpty(phases: readonly Phase[]): Phase | undefined {
  for (const phase of phases) {
    const found = firstEmpty(phase.phases) ?? (phase.rows === 0 && phase.op !== null ? phase : undefined);
    if (found !== undefined) return found;
  }
  return undefined;
}
