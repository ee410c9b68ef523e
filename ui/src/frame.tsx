// What stands around every view: the bar, the navigation, signing in, and what goes wrong everywhere.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Target } from "./api";
import { finding, FindDialog, helping } from "./find";
import { forgetAll, keep } from "./keep";
import { Dialog, Failure, Icon, initials, Key, CommitWords, madeAt, Menu, tell, Time, Toast, when } from "./parts";
import { begin, enter, enterWith, graphs, leave, namedGraph, session, signInReason, way } from "./session";
import {
  actor, branches, catalog, commits, failure, fragment, go, isDark, isPartial, isPast, letterKeys, lookAt, moved, refresh, said, setTheme, snapshot, stored, tags, target, theme, unknownView, view,
  type View,
} from "./state";

const NAVIGATION: readonly [string, readonly [View, string, string][]][] = [
  ["Look", [["overview", "Overview", "home"], ["query", "Query", "code"], ["stored", "Stored queries", "bookmark"]]],
  ["Data", [["schema", "Schema", "schema"]]],
];

export function Bar() {
  const now = session.value;
  const name = now?.actor ?? actor.value;
  return (
    <header class={`bar${isPast.value ? " past" : ""}`}>
      <a class="brand" href={fragment("overview")} onClick={(event) => { event.preventDefault(); go("overview"); }}>
        <svg viewBox="0 0 22 22" aria-hidden="true">
          <path d="M6 6l10 5M6 6l3 11M16 11l-7 6" />
          <circle class="c1" cx="6" cy="5.5" r="3.6" />
          <circle class="c2" cx="16.5" cy="11" r="3.6" />
          <circle class="c3" cx="8.5" cy="17" r="3.6" />
        </svg>
        <span>OmniGraph</span>
      </a>
      {now !== null && graphs.value.length > 1 && <GraphMenu />}
      {now !== null && <TargetMenu />}
      {isPast.value && (
        <>
          <p class="past-note" title={target.value.snapshot ?? target.value.time}>
            You are looking at {pastText(target.value)}, read only.
          </p>
          <button class="button small" onClick={() => lookAt({})}>
            Back to now
          </button>
        </>
      )}
      {moved.value && !isPast.value && (
        <button class="button small" onClick={refresh}>
          The branch moved: refresh
        </button>
      )}
      <span class="gap" />
      {now !== null && (
        <button class="find" onClick={() => (finding.value = true)}>
          <Icon name="find" /> <span>Find a node, type, branch …</span> <Key>Ctrl K</Key>
        </button>
      )}
      <ThemeMenu />
      {now !== null && (
        <span class="who" title={name ?? "nobody in particular"}>
          <span class="face" aria-hidden="true">{initials(name ?? "–")}</span>
          <span>{name ?? (way === "open" ? "everybody" : "you")}</span>
        </span>
      )}
    </header>
  );
}

function pastText(at: Target): string {
  if (at.tag !== undefined) return `the tag ${at.tag}`;
  if (at.time !== undefined) return when(Date.parse(at.time));
  const id = at.snapshot ?? "";
  return id.length < 10 ? `the commit ${id}` : `the commit of ${when(madeAt(id))}`;
}

const GraphMenu = () => (
  <Menu button={<span class="pick">Graph <b>{session.value?.graph}</b> <Icon name="down" /></span>}>
    {(close) => graphs.value.map((name) => (
      <button key={name} onClick={() => {
        close();
        enter({ ...session.value!, graph: name }, session.value!.token !== null);
        lookAt({});
      }}>
        {name}
      </button>
    ))}
  </Menu>
);

function TargetMenu() {
  const typed = useSignal("");
  const at = target.value;
  const head = commits.value[0];
  return (
    <Menu
      button={
        <span class="pick target" title="Choose the branch, tag, commit or time to look at">
          <span class="hidden">Looking at </span>
          <Icon name="branch" /> <b>{at.tag ?? at.branch ?? (at.snapshot === undefined ? "main" : "commit")}</b>{" "}
          <span>{isPast.value ? "past" : head === undefined ? "" : <>head · <Time micros={head.created_at} /></>}</span> <Icon name="down" />
        </span>
      }
    >
      {(close) => {
        const look = (next: Target) => {
          close();
          lookAt(next);
        };
        return (
          <>
            <p>Branches</p>
            {branches.value.slice(0, 30).map((name) => (
              <button key={name} aria-current={!isPast.value && (at.branch ?? "main") === name} onClick={() => look(name === "main" ? {} : { branch: name })}>
                <Icon name="branch" /> {name}
              </button>
            ))}
            {tags.value.length > 0 && <p>Tags</p>}
            {tags.value.slice(0, 30).map((name) => (
              <button key={name} onClick={() => look({ tag: name })}>
                <Icon name="bookmark" /> {name}
              </button>
            ))}
            <p>Commits</p>
            {commits.value.slice(0, 8).map((commit) => (
              <button key={commit.graph_commit_id} title={commit.graph_commit_id} aria-current={at.snapshot === commit.graph_commit_id} onClick={() => look({ snapshot: commit.graph_commit_id })}>
                <CommitWords commit={commit} /> <span class="r"><Time micros={commit.created_at} /></span>
              </button>
            ))}
            <form onSubmit={(event) => {
              event.preventDefault();
              const found = targetOf(typed.value.trim(), at.branch ?? "main");
              if (found === null) tell("That is no time: write 2026-05-01T12:00.");
              else if (typed.value.trim() !== "") look(found);
            }}>
              <label>
                A branch, commit or time
                <input class="field" value={typed.value} placeholder="2026-05-01T12:00" onInput={(event) => (typed.value = event.currentTarget.value)} />
              </label>
            </form>
          </>
        );
      }}
    </Menu>
  );
}

/** What somebody means who types the name of a state: a commit, a time of this branch, or another branch. */
function targetOf(text: string, ofBranch: string): Target | null {
  if (/^[0-9A-HJKMNP-TV-Z]{26}$/.test(text)) return { snapshot: text };
  if (!/^\d{4}-\d\d-\d\d/.test(text)) return text === "main" ? {} : { branch: text };
  const time = new Date(text);
  return Number.isNaN(time.getTime()) ? null : { branch: ofBranch, time: /[zZ]$|[+-]\d\d:\d\d$/.test(text) ? text : time.toISOString() };
}

const ThemeMenu = () => (
  <Menu label="Theme, keys and what is kept" button={<span class="tool"><Icon name={isDark.value ? "moon" : "sun"} /></span>}>
    {(close) => (
      <>
        <p>Theme</p>
        {(["light", "dark", "system"] as const).map((name) => (
          <button key={name} aria-current={theme.value === name} onClick={() => { close(); setTheme(name); }}>
            {name.charAt(0).toUpperCase() + name.slice(1)}
          </button>
        ))}
        <p>More</p>
        <button onClick={() => { close(); helping.value = true; }}>Keys <Key>?</Key></button>
        <button onClick={() => { letterKeys.value = !letterKeys.value; keep("letters", letterKeys.value, true); close(); }}>
          {letterKeys.value ? "Switch single-letter keys off" : "Switch single-letter keys on"}
        </button>
        <button onClick={() => { forgetAll(); location.reload(); }}>Forget all texts and runs</button>
        {way !== "open" && session.value !== null && <button onClick={() => { close(); leave(); }}>Sign out</button>}
      </>
    )}
  </Menu>
);

export const Navigation = () => (
  <nav class="nav" aria-label="Views">
    {NAVIGATION.map(([group, views]) => (
      <div key={group} role="group" aria-label={group}>
        <p>{group}</p>
        {views.map(([name, text, icon]) => (
          <a key={name} href={fragment(name)} title={text} aria-current={view.value === name ? "page" : undefined} onClick={(event) => { if (event.ctrlKey || event.metaKey || event.shiftKey) return; event.preventDefault(); go(name); }}>
            <Icon name={icon} /> <span>{text}</span>
            {name === "stored" && stored.value.length > 0 && <span class="n">{stored.value.length}</span>}
          </a>
        ))}
      </div>
    ))}
    <p class="foot">
      Press <Key>?</Key> for all keys
    </p>
  </nav>
);

export function SignIn() {
  const token = useSignal("");
  const graph = useSignal(namedGraph() ?? "default");
  const asksGraph = useSignal(false);
  const inTab = useSignal(true);
  const busy = useSignal(false);
  const sign = async () => {
    const text = token.value.trim();
    if (text === "" || busy.value) return;
    busy.value = true;
    asksGraph.value = await enterWith(text, asksGraph.value ? graph.value.trim() || "default" : null, inTab.value);
    busy.value = false;
  };
  return (
    <main id="main" class="sign-in">
      <form class="card" onSubmit={(event) => { event.preventDefault(); void sign(); }}>
        <h1>{way === "code" ? "Open the link of the terminal" : way === "open" ? "OmniGraph" : "Sign in"}</h1>
        {signInReason.value !== "" && <p class="wrong" role="alert">{signInReason.value}</p>}
        {failure.value !== null && <Failure error={failure.value} retry={() => location.reload()} byItself />}
        {way === "open" ? null : way === "code" ? (
          <>
            <p class="soft">This explorer belongs to whoever started it. Press Enter in the terminal of <code>omnigraph ui</code>: it prints a new link.</p>
            <button class="button" type="button" onClick={() => void begin(null)}>Look again</button>
          </>
        ) : (
          <>
            <label>Token <input class="field" type="password" autocomplete="off" value={token.value} onInput={(event) => (token.value = event.currentTarget.value)} /></label>
            {asksGraph.value && (
              <>
                <p class="soft">You may not list the graphs of this server: name one.</p>
                <label>Graph <input class="field" autocomplete="off" value={graph.value} onInput={(event) => (graph.value = event.currentTarget.value)} /></label>
              </>
            )}
            <label class="check"><input type="checkbox" checked={inTab.value} onChange={(event) => (inTab.value = event.currentTarget.checked)} /> Keep it in this tab</label>
            <button class="button main" type="submit" disabled={busy.value}>Sign in</button>
          </>
        )}
      </form>
    </main>
  );
}

const KEYS: readonly (readonly [string, string])[] = [
  ["Ctrl K", "find"], ["g then o q s t", "Overview, Query, Schema, Stored queries"], ["Ctrl Enter", "run"], ["Ctrl .", "stop"], ["Alt 1 … 4", "Graph, Table, JSON, Plan"],
  ["F8", "next fault in the text"], ["Esc", "close; in the editor: then Tab leaves it"], ["arrows", "in the picture: along edges"], ["Enter", "in the picture: follow the edges of a node"],
  ["Delete", "in the picture: hide a node"], ["Ctrl Z", "in the picture: undo"], ["f + -", "in the picture: fit, zoom"], ["j k", "in a table: the next row, the one before"],
];

export const Help = ({ close }: { close: () => void }) => (
  <Dialog title="Keys" close={close}>
    <h2>Keys</h2>
    <dl class="keys">
      {KEYS.map(([key, text]) => (
        <div key={key}><dt><Key>{key}</Key></dt><dd>{text}</dd></div>
      ))}
    </dl>
    <div class="acts"><button class="button main" onClick={close}>Close</button></div>
  </Dialog>
);

export function Notices() {
  return (
    <>
      {way === "open" && session.value !== null && <p class="banner" role="note">This server asks for no token: anyone who reaches this port can write.</p>}
      {failure.value !== null && <Failure error={failure.value} byItself />}
      {isPartial.value && failure.value === null && <p class="banner" role="note">You may read some branches only, so types are shown without their properties. Choose a branch by its name in the blue field.</p>}
      {unknownView.value !== "" && <p class="banner" role="alert">There is no view “{unknownView.value}”; this is the overview.</p>}
      <Toast />
      <p class="hidden" role="status" aria-live="polite">{said.value}</p>
      {finding.value && catalog.value !== null && <FindDialog />}
    </>
  );
}

/** The title of the window: where one is. */
export function useTitle(): void {
  const names: Record<View, string> = { overview: "Overview", query: "Query", stored: "Stored queries", schema: "Schema" };
  const graph = session.value?.graph;
  const commit = snapshot.value?.graph_commit_id;
  useEffect(() => {
    document.title = `${names[view.value]} · ${graph === undefined || graph === "default" ? "OmniGraph" : `${graph} · OmniGraph`}`;
  }, [view.value, graph, commit]);
}
