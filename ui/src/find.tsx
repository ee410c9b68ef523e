// Find anything by typing: views, types, branches, tags, commits, stored queries, and nodes.
import { signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api, type Commit, type GraphNode } from "./api";
import { Dialog, Icon, Mark } from "./parts";
import { askAbout, captionOf, lookAtType } from "./query/made";
import { openText, runSoon } from "./query/tabs";
import { branch, branches, catalog, chosenType, commits, go, isPast, lookAt, refresh, setTheme, stored, tags, target, theme, VIEWS } from "./state";
import { openStored } from "./views/stored";
import { ask } from "./views/overview";

export const finding = signal(false);
/** Whether the list of keys is shown. */
export const helping = signal(false);

const COMMIT_ID = /^[0-9A-HJKMNP-TV-Z]{4,26}$/i;
const SEARCHED_COMMITS = 1000;

interface Found {
  key: string;
  icon: string;
  type?: string;
  text: string;
  about: string;
  act: () => void;
}

/** Things to do that have no place of their own. */
const commands = (): Found[] => {
  const act = (text: string, icon: string, does: () => void): Found => ({ key: `command ${text}`, icon, text, about: "command", act: does });
  return [
    act("Read everything again", "check", refresh),
    ...(isPast.value ? [act("Back to now", "branch", () => lookAt({}))] : []),
    ...(["light", "dark", "system"] as const).filter((each) => each !== theme.value).map((each) => act(`Theme: ${each}`, each === "dark" ? "moon" : "sun", () => setTheme(each))),
    act("Keys", "list", () => (helping.value = true)),
  ];
};

const VIEW_NAMES: Record<string, string> = { overview: "Overview", query: "Query", stored: "Stored queries", schema: "Schema" };

export function FindDialog() {
  const typed = useSignal("");
  const at = useSignal(0);
  const nodes = useSignal<GraphNode[]>([]);
  const searching = useSignal(false);
  const older = useSignal<readonly Commit[]>(commits.value);
  useEffect(() => {
    const text = typed.value.trim();
    if (text.length < 2) {
      nodes.value = [];
      searching.value = false;
      return;
    }
    let gone = false;
    searching.value = true;
    const timer = setTimeout(() => {
      if (COMMIT_ID.test(text)) void findCommits(text).then((found) => (older.value = found));
      void findNodes(text).then((found) => {
        if (gone) return;
        nodes.value = found;
        searching.value = false;
      });
    }, 200);
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [typed.value]);
  const close = () => (finding.value = false);
  const all = [...known(typed.value.trim().toLowerCase(), older.value), ...nodes.value.map(nodeFound)].slice(0, 40);
  const take = (found: Found | undefined) => {
    if (found === undefined) return;
    close();
    found.act();
  };
  return (
    <Dialog title="Find" close={close} wide>
      <input
        class="field finds"
        type="text"
        role="combobox"
        aria-expanded="true"
        aria-controls="found"
        aria-label="Find"
        aria-activedescendant={all[at.value] === undefined ? undefined : `found-${at.value}`}
        placeholder="A view, type, branch, tag, commit, stored query, or words of a node"
        autofocus
        value={typed.value}
        onInput={(event) => {
          typed.value = event.currentTarget.value;
          at.value = 0;
        }}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown") at.value = Math.min(at.value + 1, all.length - 1);
          else if (event.key === "ArrowUp") at.value = Math.max(at.value - 1, 0);
          else if (event.key === "Enter") take(all[at.value]);
          else return;
          event.preventDefault();
        }}
      />
      <ul class="found" id="found" role="listbox" aria-label="Found">
        {all.map((found, i) => (
          <li key={found.key} id={`found-${i}`} role="option" aria-selected={i === at.value} onClick={() => take(found)}>
            {found.type === undefined ? <Icon name={found.icon} /> : <Mark type={found.type} />}
            <span dir="auto">{found.text}</span>
            <span class="r">{found.about}</span>
          </li>
        ))}
      </ul>
      {all.length === 0 && <p class="soft pad">{searching.value ? "Looking …" : "Nothing is called so. Texts of nodes are searched for whole words."}</p>}
    </Dialog>
  );
}

function known(wanted: string, older: readonly Commit[]): Found[] {
  const types = catalog.value!;
  const everything: Found[] = [
    ...VIEWS.map((name) => ({ key: `view ${name}`, icon: "home", text: VIEW_NAMES[name] ?? name, about: "view", act: () => go(name) })),
    ...types.nodes.map((type) => ({ key: `type ${type.name}`, icon: "", type: type.name, text: type.name, about: "type", act: () => ask(lookAtType(type)) })),
    ...types.edges.map((type) => ({ key: `edge ${type.name}`, icon: "schema", text: type.name, about: `edge type, ${type.from} → ${type.to}`, act: () => { chosenType.value = type.name; go("schema"); } })),
    ...branches.value.map((name) => ({ key: `branch ${name}`, icon: "branch", text: name, about: "branch", act: () => lookAt(name === "main" ? {} : { branch: name }) })),
    ...tags.value.map((name) => ({ key: `tag ${name}`, icon: "bookmark", text: name, about: "tag", act: () => lookAt({ tag: name }) })),
    ...stored.value.map((each) => ({ key: `stored ${each.name}`, icon: "bookmark", text: each.name, about: "stored query", act: () => openStored(each) })),
    ...commands(),
  ];
  const found = everything.filter((each) => each.text.toLowerCase().includes(wanted));
  return [...found, ...older.filter((each) => each.graph_commit_id.toLowerCase().startsWith(wanted)).slice(0, 8).map(commitFound)];
}

const commitFound = (commit: Commit): Found => ({
  key: `commit ${commit.graph_commit_id}`,
  icon: "check",
  text: commit.graph_commit_id,
  about: `commit, ${commit.operation}`,
  act: () => lookAt({ snapshot: commit.graph_commit_id }),
});

/** The newest commits of the branch in force, and the one with this id wherever it is. */
async function findCommits(text: string): Promise<readonly Commit[]> {
  const whole = text.length === 26 ? [await api.commit(text.toUpperCase()).catch(() => null)] : [];
  const newest = await api.commits(branch.value, SEARCHED_COMMITS).catch(() => ({ commits: [...commits.value] }));
  const others = newest.commits.filter((each) => each.graph_commit_id !== whole[0]?.graph_commit_id);
  return [...whole.filter((each) => each !== null), ...others];
}

const nodeFound = (node: GraphNode): Found => ({
  key: `node ${node.type} ${node.id}`,
  icon: "",
  type: node.type,
  text: node.caption,
  about: `${node.type} ${node.id}`,
  act: () => {
    const made = askAbout(catalog.value!, node);
    openText(made.name, made.text);
    runSoon.value++;
    go("query");
  },
});

/** `Type key` is one node; other words are searched in the indexed texts, five of each type. */
async function findNodes(text: string): Promise<GraphNode[]> {
  const types = catalog.value!, at = target.value;
  const [first = "", ...rest] = text.split(/\s+/);
  const named = types.nodes.find((type) => type.name.toLowerCase() === first.toLowerCase());
  if (named !== undefined && rest.length > 0) {
    const found = await api.subgraph({ nodes: [{ type: named.name, id: rest.join(" ") }] }, at).catch(() => null);
    return found?.nodes ?? [];
  }
  const asked = types.nodes.flatMap((type) => {
    const indexed = type.properties.filter((each) => each.index === "text");
    const property = indexed.find((each) => each.name === captionOf(type)) ?? indexed[0];
    if (property === undefined) return [];
    const query = `query find($text: String) {\n  match { $n: ${type.name}  search($n.${property.name}, $text) }\n  return { $n }\n  limit 5\n}`;
    return [api.subgraph({ query, params: { text } }, at).then((found) => found.nodes, () => [] as GraphNode[])];
  });
  return (await Promise.all(asked)).flat();
}
