// The HTTP interface of a server, as the page uses it. Nothing else in the page sends requests.

export interface Property {
  name: string;
  type: string;
  nullable: boolean;
  list: boolean;
  enum?: string[];
  vector_dim?: number;
  metric?: "l2" | "cosine" | "dot";
  index?: "btree" | "text" | "vector";
  unique: boolean;
  embed?: { source: string; model: string | null };
  constraints: string[];
  description?: string;
}
export interface NodeType {
  name: string;
  key: string[];
  implements: string[];
  description?: string;
  properties: Property[];
}
export interface EdgeType {
  name: string;
  word: string;
  from: string;
  to: string;
  card: { min: number; max?: number };
  description?: string;
  properties: Property[];
}
export interface Interface {
  name: string;
  description?: string;
  properties: Property[];
}
export interface Catalog {
  schema_hash: string;
  nodes: NodeType[];
  edges: EdgeType[];
  interfaces: Interface[];
}
export interface NodeName {
  type: string;
  id: string;
}
export interface GraphNode extends NodeName {
  caption: string;
  properties?: Record<string, unknown>;
}
export interface GraphEdge {
  type: string;
  id: string;
  from: NodeName;
  to: NodeName;
}
export interface Subgraph {
  nodes: GraphNode[];
  missing: NodeName[];
  edges: GraphEdge[];
  truncated: boolean;
  total_nodes?: number;
  graph_commit_id: string;
}
export interface EdgeCount {
  edge: string;
  direction: "out" | "in";
  total: number;
}
export interface Neighbors {
  center: GraphNode;
  nodes: GraphNode[];
  edges: GraphEdge[];
  counts: EdgeCount[];
  next?: string;
}
export interface Column {
  name: string;
  type: string;
  nullable: boolean;
  entity?: { kind: "node" | "edge"; type: string };
}
export type Row = Record<string, unknown>;
export interface QueryAnswer {
  query_name: string | null;
  row_count: number;
  columns: string[];
  schema: Column[];
  rows: Row[];
  graph_commit_id: string;
  truncated?: boolean;
  total_rows?: number;
}
export interface Commit {
  graph_commit_id: string;
  branch: string | null;
  actor_id: string | null;
  created_at: number;
  operation: string;
}
export interface MutationAnswer {
  branch: string;
  query_name: string | null;
  affected_nodes: number;
  affected_edges: number;
  commit: Commit | null;
}
export interface Table {
  table_key: string;
  row_count: number;
}
export interface Snapshot {
  branch: string | null;
  graph_commit_id: string;
  tables: Table[];
}
export interface Span {
  start: number;
  end: number;
  line: number;
  column: number;
}
export interface Diagnostic {
  kind: string;
  rule?: string;
  hint?: string;
  span: Span;
}
export interface LintAnswer {
  results: { name: string; kind: string; status: string; error?: string; warnings?: string[]; diagnostic?: Diagnostic }[];
  findings: { severity: string; code: string; message: string; diagnostic?: Diagnostic }[];
}
export interface PlanStep {
  text: string;
  table_key: string | null;
  rows: number | null;
  indexes: { table_key: string; column: string; kind: string; coverage: string }[];
}
export interface Phase {
  name: string;
  rows: number | null;
  /** The step of the plan that it is; null for what every query does. */
  op: string | null;
  milliseconds: number;
  phases: Phase[];
}
export interface ExplainAnswer {
  steps: PlanStep[];
  profile?: Phase[];
  row_count?: number;
}
export interface Entity {
  kind: "node" | "edge";
  type: string;
  id: string;
  properties: Record<string, unknown>;
  endpoints?: { from: NodeName; to: NodeName };
}
/** A node or edge by its type and id. */
export interface EntityName {
  kind: "node" | "edge";
  type: string;
  id: string;
}
/** The commit that made a change. */
export interface Author {
  graph_commit_id: string;
  branch: string | null;
  actor_id: string | null;
  created_at: number;
  operation: string;
  merged_by: string | null;
  via?: { graph_commit_id: string; branch: string | null; actors: string[]; commits: number };
  reclaimed?: { after: string | null };
}
interface Image {
  properties?: Record<string, unknown>;
  endpoints?: { from: string; to: string };
}
export interface Change extends Author {
  op: "insert" | "update" | "delete";
  changed: string[] | null;
  before?: Image;
  after?: Image;
}
export interface Changes {
  entries: Change[];
  next: string | null;
  complete: boolean;
}
export interface Blame {
  properties: Record<string, Author & { value: unknown }>;
}
export interface StoredParameter {
  name: string;
  kind: string;
  nullable: boolean;
  item_kind?: string;
  vector_dim?: number;
}
export interface StoredQuery {
  name: string;
  tool_name: string;
  description?: string;
  instruction?: string;
  mutation: boolean;
  params: StoredParameter[];
}
export interface Tag {
  name: string;
  graph_commit_id: string;
}

/** The state of the graph that is read: the head of `main` if it names nothing. */
export interface Target {
  branch?: string;
  snapshot?: string;
  tag?: string;
  time?: string;
}

interface Details {
  hint?: string;
  span?: Span;
  rule?: string;
  param?: string;
}

/** A refusal of the server, or no answer at all (status 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly kind: string,
    message: string,
    readonly body: Details = {},
    readonly requestId = "",
    readonly retryAfter = 0,
  ) {
    super(message);
  }
}

const BASE = location.pathname.replace(/\/ui\/.*$/, "");

export interface Access {
  token: string | null;
  graph: string;
}

let access: Access = { token: null, graph: "default" };
let refused: () => void = () => undefined;

/** Say who asks, of which graph, and what to do when the token is not taken any more. */
export function use(next: Access, onRefused: () => void): void {
  access = next;
  refused = onRefused;
}

export async function send<T>(
  method: "GET" | "POST",
  path: string,
  body?: unknown,
  options: { signal?: AbortSignal; headers?: Record<string, string>; exact?: boolean } = {},
): Promise<T> {
  const headers: Record<string, string> = { ...options.headers };
  if (access.token !== null) headers["Authorization"] = `Bearer ${access.token}`;
  if (body !== undefined) headers["Content-Type"] ??= "application/json";
  const request: RequestInit = {
    method,
    headers,
    signal: options.signal ?? null,
    body: body === undefined ? null : body instanceof Blob ? body : JSON.stringify(body),
    credentials: "omit",
    cache: "no-store",
  };
  let answer = await reached(path, request);
  for (let turn = 0; turn < TURNS && answer.status === 429; turn++) {
    // A busy server has done nothing yet, so anything may be asked again.
    await pause(Math.min(waitOf(answer), MOST_WAIT), options.signal);
    answer = await reached(path, request);
  }
  if (answer.ok) {
    try {
      return (options.exact ? readExactly(await answer.text()) : await answer.json()) as T;
    } catch (error) {
      if ((error as Error).name === "AbortError") throw error;
      throw new ApiError(0, "broken", "The answer of the server broke off.");
    }
  }
  const failure = await refusal(answer);
  if (failure.status === 401 && access.token !== null) refused();
  throw failure;
}

/** How often a busy server is asked again before the reader is told, and how many seconds at most it is waited for. */
const TURNS = 2, MOST_WAIT = 5;
const waitOf = (answer: Response): number => Number(answer.headers.get("retry-after")) || 1;

async function reached(path: string, request: RequestInit): Promise<Response> {
  try {
    return await fetch(BASE + path, request);
  } catch (error) {
    if ((error as Error).name === "AbortError") throw error;
    throw new ApiError(0, "unreachable", "The server does not answer.");
  }
}

const pause = (seconds: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, 1000 * seconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("stopped", "AbortError"));
    });
  });

/** Read JSON whose whole numbers may have 64 bits: those that a number here would change become texts. */
function readExactly(text: string): unknown {
  const exact = (_: string, value: unknown, context?: { source?: string }) =>
    typeof value === "number" && Math.abs(value) > Number.MAX_SAFE_INTEGER && /^-?\d+$/.test(context?.source ?? "") ? context!.source : value;
  return JSON.parse(text, exact as (key: string, value: unknown) => unknown);
}

async function refusal(answer: Response): Promise<ApiError> {
  const id = answer.headers.get("x-request-id") ?? "";
  const wait = Number(answer.headers.get("retry-after") ?? 0);
  try {
    const body = (await answer.json()) as Details & { error?: string; kind?: string };
    const message = body.error ?? `The server answered ${answer.status}.`;
    return new ApiError(answer.status, body.kind ?? "unknown", message, body, id, wait);
  } catch {
    return new ApiError(answer.status, "unknown", `The server answered ${answer.status}.`, {}, id, wait);
  }
}

const graphPath = (path: string) => `/graphs/${encodeURIComponent(access.graph)}/${path}`;
const get = <T>(path: string, signal?: AbortSignal) => send<T>("GET", graphPath(path), undefined, signal ? { signal } : {});
const post = <T>(path: string, body: unknown, signal?: AbortSignal) => send<T>("POST", graphPath(path), body, signal ? { signal } : {});

const query = (parts: Record<string, string | undefined>): string => {
  const given = Object.entries(parts).filter((pair): pair is [string, string] => pair[1] !== undefined);
  return given.length === 0 ? "" : `?${new URLSearchParams(given)}`;
};

const named = ({ kind, type, id }: EntityName) => ({ kind, type, id });

export interface Ask {
  query: string;
  name?: string;
  params?: Record<string, unknown>;
}

/** Names of properties, by type. */
export type Properties = Record<string, string[]>;

/** The most rows that the page asks for. */
export const MOST_ROWS = 10_000;

export const api = {
  graphs: () => send<{ graphs: { graph_id: string }[] }>("GET", "/graphs"),
  session: (code: string) =>
    send<{ token: string; actor_id: string | null; graph_id: string; mode: string }>("POST", "/ui/session", { code }),
  catalog: () => get<Catalog>("catalog"),
  schema: (target: Target) => get<{ schema_source: string }>(`schema${query({ ...target })}`),
  snapshot: (target: Target) => get<Snapshot>(`snapshot${query({ ...target })}`),
  status: () => get<{ graph_id: string; branches: string[] }>("status"),
  branches: () => get<{ branches: string[] }>("branches"),
  tags: () => get<{ tags: Tag[] }>("tags"),
  commits: (branch: string, limit: number) =>
    get<{ commits: Commit[] }>(`commits${query({ branch, limit: String(limit) })}`),
  commit: (id: string) => get<Commit>(`commits/${encodeURIComponent(id)}`),
  queries: () => get<{ queries: StoredQuery[] }>("queries"),
  entity: (kind: "node" | "edge", type: string, id: string, target: Target) =>
    send<Entity>("GET", graphPath(`entity${query({ kind, type, id, ...target })}`), undefined, { exact: true }),
  history: (entity: EntityName, target: Target, limit: number, before: string | null) =>
    send<Changes>(
      "GET",
      graphPath(`entity/history${query({ ...named(entity), short: "true", limit: String(limit), before: before ?? undefined, ...target })}`),
      undefined,
      { exact: true },
    ),
  blame: (entity: EntityName, target: Target) => get<Blame>(`entity/blame${query({ ...named(entity), ...target })}`),
  neighbors: (
    node: NodeName,
    target: Target,
    more: { edges?: string[]; direction?: "out" | "in"; properties?: Properties; after?: string; limit?: number } = {},
  ) => post<Neighbors>("neighbors", { type: node.type, id: node.id, ...more, ...target }),
  subgraph: (ask: Partial<Ask> & { nodes?: NodeName[]; edges?: string[]; properties?: Properties; limit?: number }, target: Target, signal?: AbortSignal) =>
    post<Subgraph>("subgraph", { ...ask, ...target }, signal),
  query: (ask: Ask, target: Target, signal?: AbortSignal) =>
    post<QueryAnswer>("query", { ...ask, ...target, max_rows: MOST_ROWS }, signal),
  explain: (ask: Ask, target: Target, profile: boolean) => post<ExplainAnswer>("explain", { ...ask, ...target, profile }),
  mutate: (ask: Ask, branch: string, head: string | null, signal?: AbortSignal) =>
    send<MutationAnswer>("POST", graphPath("mutate"), { ...ask, branch }, {
      ...(signal ? { signal } : {}),
      headers: head === null ? {} : { "Omnigraph-If-Graph-Commit": head },
    }),
  /** Load a file of JSON lines into a branch. */
  load: (file: Blob, branch: string) =>
    send<MutationAnswer>("POST", graphPath(`load/ndjson${query({ branch })}`), file, { headers: { "Content-Type": "application/x-ndjson" } }),
  invoke: (name: string, params: Record<string, unknown>, target: Target, expect_mutation: boolean) =>
    post<QueryAnswer | MutationAnswer>(`queries/${encodeURIComponent(name)}`, {
      params,
      ...target,
      expect_mutation,
      ...(expect_mutation ? {} : { max_rows: MOST_ROWS }),
    }),
  lint: (source: string) => post<LintAnswer>("lint", { source }),
  permissions: (checks: { action: string; branch?: string }[]) =>
    post<{ actor_id: string | null; mode: string; results: { allowed: boolean; message: string }[] }>("permissions", { checks }),
};
