// Who is looking: the token, where it comes from, and how tabs share it.
//
// A token is in memory and, so that a reload keeps it, in the storage of this tab. Other tabs of the same
// origin ask for it; nothing else ever gets it.
import { signal } from "@preact/signals";
import { api, ApiError, use } from "./api";

export interface Session {
  token: string | null;
  actor: string | null;
  graph: string;
  mode: string;
}
type Way = "open" | "token" | "code";

const KEPT = "omnigraph:session";
/** How the server lets people in; it says so in the page itself. */
export const way: Way = ((): Way => {
  const text = document.querySelector<HTMLMetaElement>("meta[name=omnigraph-access]")?.content;
  return text === "open" || text === "code" ? text : "token";
})();

export const session = signal<Session | null>(null);
/** Why somebody is asked to sign in, if there is a reason to tell. */
export const signInReason = signal("");
export const graphs = signal<string[]>([]);

const channel = "BroadcastChannel" in globalThis ? new BroadcastChannel("omnigraph-session") : null;
channel?.addEventListener("message", (event: MessageEvent<{ ask?: true; session?: Session }>) => {
  if (event.data.ask && session.value?.token) channel.postMessage({ session: session.value });
  // A tab that waits for a link goes on as soon as another one has used it.
  if (event.data.session && session.value === null && way === "code") enter(event.data.session, true);
});

export function enter(next: Session, keepInTab: boolean): void {
  use({ token: next.token, graph: next.graph }, dropped);
  if (keepInTab && next.token !== null) sessionStorage.setItem(KEPT, JSON.stringify(next));
  signInReason.value = "";
  session.value = next;
}

/** Sign in with a typed token; return whether the name of a graph has to be typed, too. */
export async function enterWith(token: string, graph: string | null, keepInTab: boolean): Promise<boolean> {
  use({ token, graph: graph ?? "default" }, () => undefined);
  try {
    graphs.value = (await api.graphs()).graphs.map((each) => each.graph_id);
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 403)) {
      signInReason.value = error instanceof ApiError && error.status === 401 ? "The server does not know this token." : (error as Error).message;
      return false;
    }
    if (graph === null) return true;
  }
  enter({ token, actor: null, graph: graph ?? chosenGraph(graphs.value), mode: "token" }, keepInTab);
  return false;
}

/** Learn which graphs there are, if the reader may know. */
export async function listGraphs(): Promise<void> {
  if (graphs.value.length > 0 || way === "code") return;
  const listed = await api.graphs().catch(() => null);
  if (listed !== null) graphs.value = listed.graphs.map((each) => each.graph_id);
}

export function leave(reason = ""): void {
  sessionStorage.removeItem(KEPT);
  use({ token: null, graph: "default" }, () => undefined);
  signInReason.value = reason;
  session.value = null;
}

function dropped(): void {
  leave("The server does not take the token any more.");
}

/** Sign in with whatever there is: the code of a link, what this tab keeps, or what another tab has. */
export async function begin(code: string | null): Promise<void> {
  use({ token: null, graph: "default" }, () => undefined);
  if (code !== null) {
    try {
      const given = await api.session(code);
      enter({ token: given.token, actor: given.actor_id, graph: given.graph_id, mode: given.mode }, true);
      channel?.postMessage({ session: session.value });
      return;
    } catch (error) {
      signInReason.value = error instanceof ApiError ? error.message : String(error);
      if (!(error instanceof ApiError && error.status === 401)) return;
    }
  }
  if (way === "open") {
    const listed = (await api.graphs()).graphs.map((each) => each.graph_id);
    graphs.value = listed;
    enter({ token: null, actor: null, graph: chosenGraph(listed), mode: "open" }, false);
    return;
  }
  const own = sessionStorage.getItem(KEPT);
  const found = own === null ? await askTabs() : (JSON.parse(own) as Session);
  if (found === null) return;
  enter({ ...found, graph: namedGraph() ?? found.graph }, true);
  void listGraphs();
}

/** The graph that the address names. */
export const namedGraph = (): string | null => new URLSearchParams(location.hash.split("?")[1] ?? "").get("graph");

function chosenGraph(listed: string[]): string {
  const asked = namedGraph();
  return asked !== null && listed.includes(asked) ? asked : (listed[0] ?? "default");
}

function askTabs(): Promise<Session | null> {
  return new Promise((resolve) => {
    if (channel === null) return resolve(null);
    const answered = (event: MessageEvent<{ session?: Session }>) => {
      if (event.data.session) done(event.data.session);
    };
    const done = (found: Session | null) => {
      channel.removeEventListener("message", answered);
      clearTimeout(timer);
      resolve(found);
    };
    const timer = setTimeout(() => done(null), 300);
    channel.addEventListener("message", answered);
    channel.postMessage({ ask: true });
  });
}
