// The panel of one node: its properties, and its edges, which can be followed.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api, type EdgeCount, type Entity, type GraphNode } from "./api";
import { expand, keyOf, type GraphModel } from "./drawing/model";
import { Failure, Icon, Mark, number } from "./parts";
import { askAbout } from "./query/made";
import { openText } from "./query/tabs";
import { catalog, go, target } from "./state";
import { Value } from "./values";

export function EntityPanel({ node, model }: { node: GraphNode; model: GraphModel }) {
  const entity = useSignal<Entity | null>(null);
  const counts = useSignal<EdgeCount[]>([]);
  const error = useSignal<unknown>(null);
  const tried = useSignal(0);
  useEffect(() => {
    let gone = false;
    error.value = null;
    Promise.all([api.entity("node", node.type, node.id, target.value), api.neighbors(node, target.value, { limit: 1 })]).then(
      ([found, near]) => {
        if (gone) return;
        entity.value = found;
        counts.value = near.counts.filter((each) => each.total > 0);
      },
      (failed: unknown) => {
        if (!gone) error.value = failed;
      },
    );
    return () => {
      gone = true;
    };
  }, [node.type, node.id, target.value, tried.value]);
  const key = keyOf(node);
  return (
    <aside class="inspect" aria-label={`${node.type} ${node.caption}`}>
      <header>
        <Mark type={node.type} large />
        <h2 dir="auto">{node.caption}</h2>
        <button class="tool" aria-label="Close" title="Close" onClick={() => (model.selected.value = null)}>
          <Icon name="close" />
        </button>
        <p class="small">
          {node.type} · <span dir="auto">{node.id}</span>
        </p>
      </header>
      <div class="scroll" tabIndex={0} role="region" aria-label="Properties and edges">
        {error.value !== null && <Failure error={error.value} retry={() => tried.value++} />}
        <dl class="props">
          {Object.entries(entity.value?.properties ?? {}).map(([name, value]) => (
            <div key={name}>
              <dt title={name}>{name}</dt>
              <dd>
                <Value value={value} />
              </dd>
            </div>
          ))}
        </dl>
        {counts.value.length > 0 && <h3>Edges</h3>}
        <ul class="near">
          {counts.value.map((count) => (
            <EdgeRow key={count.edge + count.direction} count={count} node={node} model={model} />
          ))}
        </ul>
        {entity.value !== null && counts.value.length === 0 && <p class="soft pad">No edge begins or ends here.</p>}
      </div>
      <div class="acts">
        <button class="button small" onClick={() => void expandAll(model, node)}>
          Expand
        </button>
        {model.expanded(key) && (
          <button class="button small" onClick={() => model.collapse(key)}>
            Collapse
          </button>
        )}
        <button class="button small" onClick={() => model.hide(key)}>
          Hide
        </button>
        <button class="button small" onClick={() => query(node)}>
          Query
        </button>
      </div>
    </aside>
  );
}

async function expandAll(model: GraphModel, node: GraphNode): Promise<void> {
  try {
    await expand(model, node, target.value);
  } catch (error) {
    model.refused.value = (error as Error).message;
  }
}

function query(node: GraphNode): void {
  if (catalog.value === null) return;
  const made = askAbout(catalog.value, node);
  openText(made.name, made.text);
  go("query");
}

/** One kind of edge of the node: how many there are, and a button that shows the next of them. */
function EdgeRow({ count, node, model }: { count: EdgeCount; node: GraphNode; model: GraphModel }) {
  const next = useSignal<string | undefined>(undefined);
  const shown = useSignal(0);
  const done = shown.value > 0 && next.value === undefined;
  const type = catalog.value?.edges.find((each) => each.name === count.edge);
  const other = count.direction === "out" ? type?.to : type?.from;
  const show = async () => {
    try {
      const wanted = { edges: [count.edge], direction: count.direction, ...(next.value === undefined ? {} : { after: next.value }) };
      const found = await expand(model, node, target.value, wanted);
      if (found.added < 0) return;
      next.value = found.next;
      shown.value += Math.min(100, count.total - shown.value);
    } catch (error) {
      model.refused.value = (error as Error).message;
    }
  };
  return (
    <li>
      <b class="edge-word">{type?.word ?? count.edge}</b>
      <span class="soft">{count.direction === "out" ? other : `from ${other}`}</span>
      <span class="r">{number(count.total)}</span>
      <button class="button small" disabled={done} onClick={() => void show()}>
        {done ? "Shown" : shown.value > 0 ? "More" : "Show"}
      </button>
    </li>
  );
}
