// What every view shares: the view and the target (both in the fragment), the catalog, and what may be done.
import { batch, computed, effect, signal } from "@preact/signals";
import { api, ApiError, type Catalog, type Commit, type Snapshot, type StoredQuery, type Target } from "./api";
import { keep, kept } from "./keep";
import { namedGraph, session } from "./session";

export type View = "overview" | "query" | "stored" | "schema";
export const VIEWS: readonly View[] = ["overview", "query", "stored", "schema"];

export const view = signal<View>("overview");
export const target = signal<Target>({});
/** Words for the person that are read out, too. */
export const said = signal("");

export const isPast = computed(() => {
  const { snapshot, tag, time } = target.value;
  return snapshot !== undefined || tag !== undefined || time !== undefined;
});
export const branch = computed(() => target.value.branch ?? "main");

// --- the fragment ---------------------------------------------------------------------------------------

export interface Link {
  text?: string;
  params?: string;
}
/** What a link brought along for the editor; it is never run by itself. */
export const linked = signal<Link | null>(null);
export const unknownView = signal("");

export function readFragment(): void {
  const hash = location.hash.slice(0, 65_536);
  const [path = "", search = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const given = new URLSearchParams(search);
  const next: Target = {};
  for (const name of ["branch", "snapshot", "tag", "time"] as const) {
    const value = given.get(name);
    if (value) next[name] = value;
  }
  const found = VIEWS.find((each) => each === path);
  batch(() => {
    unknownView.value = found === undefined && path !== "" ? path.slice(0, 40) : "";
    view.value = found ?? "overview";
    if (JSON.stringify(next) !== JSON.stringify(target.value)) target.value = next;
    const text = given.get("text");
    if (text !== null) linked.value = { text, params: given.get("params") ?? "" };
  });
  if (given.has("text")) history.replaceState(null, "", fragment(view.value, next));
}

export function fragment(to: View, at: Target = target.value, link: Link = {}): string {
  const parts = new URLSearchParams();
  const name = session.value?.graph ?? namedGraph();
  if (name !== null && name !== "default") parts.set("graph", name);
  for (const [key, value] of Object.entries(at)) if (value) parts.set(key, value as string);
  if (link.text) parts.set("text", link.text);
  if (link.params) parts.set("params", link.params);
  const search = parts.toString();
  return `#/${to}${search === "" ? "" : `?${search}`}`;
}

export function go(to: View): void {
  if (location.hash !== fragment(to)) history.pushState(null, "", fragment(to));
  view.value = to;
  unknownView.value = "";
}

export function lookAt(next: Target): void {
  target.value = next;
  history.pushState(null, "", fragment(view.value, next));
}

// --- what is known of the graph -------------------------------------------------------------------------

export const catalog = signal<Catalog | null>(null);
export const snapshot = signal<Snapshot | null>(null);
export const branches = signal<string[]>([]);
export const tags = signal<string[]>([]);
export const commits = signal<Commit[]>([]);
export const stored = signal<StoredQuery[]>([]);
export const failure = signal<unknown>(null);
/** Why nothing may be written here; empty if it may. */
export const noWriting = signal("");
/** The head has moved since what is shown was read. */
export const moved = signal(false);
/** The name that the server knows the reader by, once it has said so. */
export const actor = signal<string | null>(null);
/** Whether the reader may see some branches only: then types are known by their tables alone. */
export const isPartial = signal(false);
/** The type whose details the schema view shows. */
export const chosenType = signal<string | null>(null);
/** Counts up whenever everything is to be read again. */
export const round = signal(0);

export const rows = computed<Map<string, number>>(() => {
  const tables = snapshot.value?.tables ?? [];
  return new Map(tables.map((table) => [table.table_key, table.row_count]));
});

let reading = 0;

/** Read what all views need, at the target in force. */
export async function readGraph(): Promise<void> {
  const now = ++reading;
  const at = target.value;
  try {
    const permitted = api.permissions([{ action: "change", branch: at.branch ?? "main" }]);
    const all = Promise.all([
      api.catalog().catch(none(null)),
      api.snapshot(at),
      api.branches().catch(none({ branches: [at.branch ?? "main"] })),
      api.tags().catch(none({ tags: [] })),
      api.commits(at.branch ?? "main", 8).catch(none({ commits: [] as Commit[] })),
      api.queries().catch(none({ queries: [] as StoredQuery[] })),
    ]);
    // Everybody may ask this: who one is, is known also where nothing else may be read.
    all.catch(() => undefined);
    const may = await permitted;
    if (now === reading) actor.value = may.actor_id;
    const [types, tables, names, marks, newest, queries] = await all;
    if (now !== reading) return;
    batch(() => {
      catalog.value = types ?? typesOf(tables);
      isPartial.value = types === null;
      snapshot.value = tables;
      branches.value = names.branches;
      tags.value = marks.tags.map((each) => each.name);
      commits.value = newest.commits;
      stored.value = queries.queries;
      noWriting.value = whyNotWriting(may.results[0]);
      failure.value = null;
      moved.value = false;
    });
  } catch (error) {
    if (now === reading) failure.value = error;
  }
}

/** What the names of tables tell of a schema, for a reader who may not see it. */
function typesOf(tables: Snapshot): Catalog {
  const names = tables.tables.filter((each) => each.table_key.startsWith("node:")).map((each) => each.table_key.slice(5));
  return { schema_hash: "", nodes: names.map((name) => ({ name, key: [], implements: [], properties: [] })), edges: [], interfaces: [] };
}

const none = <T>(otherwise: T) => (error: unknown): T => {
  if (error instanceof ApiError && (error.status === 403 || error.status === 404)) return otherwise;
  throw error;
};

function whyNotWriting(result: { allowed: boolean; message: string } | undefined): string {
  if (isPast.value) return "You are looking at the past, which nobody can change.";
  if (result === undefined || result.allowed) return "";
  return `You may not change this branch${result.message === "" ? "" : `: ${result.message}`}.`;
}

export function refresh(): void {
  round.value++;
}

/** Look every few seconds whether somebody wrote; what is shown stays until the reader wants it. */
export function watchHead(): void {
  setInterval(() => {
    if (document.visibilityState !== "visible" || session.value === null || isPast.value || failure.value !== null) return;
    const known = snapshot.value?.graph_commit_id;
    if (known === undefined) return;
    void api.commits(branch.value, 1).then(
      (newest) => {
        const head = newest.commits[0]?.graph_commit_id;
        if (head !== undefined && snapshot.value?.graph_commit_id === known) moved.value = head !== known;
      },
      (error: unknown) => {
        if (error instanceof ApiError && error.status === 0) failure.value = error;
      },
    );
  }, 5000);
}

// --- themes, and keys that are single letters -----------------------------------------------------------

export type Theme = "light" | "dark" | "system";
export const theme = signal<Theme>(kept<Theme>("theme", "system", true));
export const letterKeys = signal<boolean>(kept("letters", true, true));
const dark = matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(dark.matches);
dark.addEventListener("change", () => (systemDark.value = dark.matches));
export const isDark = computed(() => theme.value === "dark" || (theme.value === "system" && systemDark.value));
export const calm = matchMedia("(prefers-reduced-motion: reduce)");

effect(() => {
  document.documentElement.dataset["theme"] = isDark.value ? "dark" : "light";
});

export function setTheme(next: Theme): void {
  theme.value = next;
  keep("theme", next, true);
}
