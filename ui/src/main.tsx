// The page: sign in, read what all views need, and show the one that the fragment names.
import "./style.css";
import { effect } from "@preact/signals";
import { render } from "preact";
import { lazy, Suspense } from "preact/compat";
import { useEffect } from "preact/hooks";
import { api, ApiError } from "./api";
import { finding, helping } from "./find";
import { Bar, Help, Navigation, Notices, SignIn, useTitle } from "./frame";
import { keepFor } from "./keep";
import { Failure } from "./parts";
import { readKept, ready } from "./query/tabs";
import { way as resultWay, WAYS } from "./results/results";
import { begin, enter, namedGraph, session } from "./session";
import { failure, go, letterKeys, readFragment, readGraph, round, target, view, watchHead, type View } from "./state";
import { OverviewView } from "./views/overview";
import { StoredView } from "./views/stored";

const SchemaView = lazy(() => import("./views/schema").then((module) => module.SchemaView).catch(() => MissingView));
const QueryView = lazy(() => import("./views/query").then((module) => module.QueryView).catch(() => MissingView));

/** What stands for a view whose code the server did not give. */
const MissingView = () => (
  <main id="main">
    <Failure error={new ApiError(0, "unreachable", "This view could not be loaded.")} retry={() => location.reload()} />
  </main>
);

function App() {
  useTitle();
  useEffect(keys, []);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>
        Skip to the view
      </a>
      <Bar />
      {session.value === null ? (
        <SignIn />
      ) : (
        <>
          <Navigation />
          <div class="view">
            <Notices />
            <Suspense fallback={null}>{ready.value && <ViewOf name={view.value} />}</Suspense>
          </div>
        </>
      )}
      {helping.value && <Help close={() => (helping.value = false)} />}
    </>
  );
}

function ViewOf({ name }: { name: View }) {
  if (name === "query") return <QueryView />;
  if (name === "schema") return <SchemaView />;
  if (name === "stored") return <StoredView />;
  return <OverviewView />;
}

const LETTERS: Record<string, View> = { o: "overview", q: "query", s: "schema", t: "stored" };

function keys(): () => void {
  let leading = 0;
  const pressed = (event: KeyboardEvent) => {
    const modified = event.ctrlKey || event.metaKey;
    if (modified && event.key.toLowerCase() === "k") {
      event.preventDefault();
      finding.value = session.value !== null;
    } else if (modified && event.key === "Enter" && view.value === "query") {
      event.preventDefault();
      void import("./views/query").then((module) => module.run());
    } else if (modified && event.key === ".") void import("./views/query").then((module) => module.stop());
    else if (event.altKey && /^[1-4]$/.test(event.key)) {
      event.preventDefault();
      resultWay.value = WAYS[Number(event.key) - 1]![0];
    }
    const element = event.target as HTMLElement;
    if (modified || event.altKey || !letterKeys.value || element.closest("input, textarea, select, [contenteditable]")) return;
    if (event.key === "?") helping.value = true;
    else if (event.key === "g") leading = Date.now();
    else if (Date.now() - leading < 1500 && LETTERS[event.key] !== undefined) {
      leading = 0;
      go(LETTERS[event.key]!);
    }
  };
  document.addEventListener("keydown", pressed);
  return () => document.removeEventListener("keydown", pressed);
}

/** Follow the address after it changed, to another graph, too. */
function arrived(): void {
  const now = session.value, graph = namedGraph();
  if (now !== null && graph !== null && graph !== now.graph) enter({ ...now, graph }, now.token !== null);
  readFragment();
}

async function start(): Promise<void> {
  // The code is taken out of the address before anything is asked.
  const code = /^#code=([\w-]+)$/.exec(location.hash)?.[1] ?? null;
  if (code !== null) history.replaceState(null, "", location.pathname);
  readFragment();
  addEventListener("popstate", arrived);
  addEventListener("hashchange", arrived);
  const place = document.getElementById("app")!;
  try {
    await begin(code);
  } catch (error) {
    failure.value = error;
  }
  effect(() => {
    const now = session.value;
    if (now === null) return;
    void api.status().then(
      (status) => keepFor(status.graph_id),
      () => keepFor(now.graph),
    ).then(readKept);
  });
  effect(() => {
    if (session.value === null) return;
    void target.value;
    void round.value;
    void readGraph();
  });
  watchHead();
  render(<App />, place);
}

void start();
