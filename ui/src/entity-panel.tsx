// The panel of one node or edge: its properties, what it is joined to, and how it came to be so.
import { useSignal } from "@preact/signals";
import type { TargetedKeyboardEvent } from "preact";
import { useEffect } from "preact/hooks";
import { api, type Blame, type EdgeCount, type Entity, type GraphEdge, type GraphNode, type NodeName } from "./api";
import { blaming, By, History, useBlame } from "./entity-history";
import { keyOf, type EdgeKind, type GraphModel } from "./drawing/model";
import { counted, Failure, Icon, Mark, number, tell } from "./parts";
import { askAbout } from "./query/made";
import { openText } from "./query/tabs";
import { catalog, go } from "./state";
import { Value } from "./values";

export function EntityPanel({ node, model }: { node: GraphNode; model: GraphModel }) {
  const entity = useSignal<Entity | null>(null);
  const counts = useSignal<EdgeCount[]>([]);
  const error = useSignal<unknown>(null);
  const tried = useSignal(0);
  useEffect(() => {
    let gone = false;
    error.value = null;
    Promise.all([api.entity("node", node.type, node.id, model.at()), api.neighbors(node, model.at(), { limit: 1 })]).then(
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
  }, [node.type, node.id, model, tried.value]);
  const key = keyOf(node);
  const name = { kind: "node" as const, type: node.type, id: node.id };
  const blame = useBlame(name, model.at());
  return (
    <aside class="inspect" aria-label={`${node.type} ${node.caption}`} onKeyDown={(event) => closed(event, model)}>
      <header>
        <Mark type={node.type} large />
        <h2 dir="auto">{node.caption}</h2>
        <Close model={model} />
        <p class="small">
          {node.type} · <span dir="auto">{node.id}</span>
        </p>
      </header>
      <div class="scroll" tabIndex={0} role="region" aria-label="Properties and edges">
        {error.value !== null && <Failure error={error.value} retry={() => tried.value++} />}
        <Properties entity={entity.value} blame={blame.value} />
        {counts.value.length > 0 && <h3>Edges</h3>}
        <ul class="near">
          {counts.value.map((count) => (
            <EdgeRow key={count.edge + count.direction} count={count} node={node} model={model} />
          ))}
        </ul>
        {entity.value !== null && counts.value.length === 0 && <p class="soft pad">No edge begins or ends here.</p>}
        {entity.value !== null && <History entity={name} at={model.at()} />}
      </div>
      <div class="acts">
        <button class="button small" onClick={() => void follow(model, node)}>
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

/** Escape closes the panel, and goes back to the picture. */
function closed(event: TargetedKeyboardEvent<HTMLElement>, model: GraphModel): void {
  if (event.key !== "Escape") return;
  event.stopPropagation();
  event.currentTarget.parentElement?.querySelector<HTMLElement>(".stage")?.focus();
  model.select(null);
}

const Close = ({ model }: { model: GraphModel }) => (
  <button class="tool" aria-label="Close" title="Close" onClick={() => model.select(null)}>
    <Icon name="close" />
  </button>
);

const Properties = ({ entity, blame }: { entity: Entity | null; blame: Blame | null }) => (
  <dl class="props">
    {Object.entries(entity?.properties ?? {}).map(([name, value]) => (
      <div key={name}>
        <dt title={name}>{name}</dt>
        <dd>
          <Value value={value} />
          {blaming.value && blame?.properties[name] !== undefined && (
            <p class="small faint">
              <By author={blame.properties[name]} />
            </p>
          )}
        </dd>
      </div>
    ))}
  </dl>
);

/** The panel of an edge, with both its ends. */
export function EdgePanel({ edge, model }: { edge: GraphEdge; model: GraphModel }) {
  const entity = useSignal<Entity | null>(null);
  const error = useSignal<unknown>(null);
  const tried = useSignal(0);
  useEffect(() => {
    let gone = false;
    error.value = null;
    api.entity("edge", edge.type, edge.id, model.at()).then(
      (found) => {
        if (!gone) entity.value = found;
      },
      (failed: unknown) => {
        if (!gone) error.value = failed;
      },
    );
    return () => {
      gone = true;
    };
  }, [edge.type, edge.id, model, tried.value]);
  const word = catalog.value?.edges.find((each) => each.name === edge.type)?.word ?? edge.type;
  const name = { kind: "edge" as const, type: edge.type, id: edge.id };
  const blame = useBlame(name, model.at());
  return (
    <aside class="inspect" aria-label={`${edge.type} ${edge.id}`} onKeyDown={(event) => closed(event, model)}>
      <header>
        <Icon name="link" />
        <h2>{word}</h2>
        <Close model={model} />
        <p class="small">
          {edge.type} · <span dir="auto">{edge.id}</span>
        </p>
      </header>
      <div class="scroll" tabIndex={0} role="region" aria-label="Properties and ends">
        {error.value !== null && <Failure error={error.value} retry={() => tried.value++} />}
        <Properties entity={entity.value} blame={blame.value} />
        <h3>Ends</h3>
        <ul class="near">
          {(["from", "to"] as const).map((end) => (
            <li key={end}>
              <span class="soft">{end}</span>
              <button class="bare row" onClick={() => model.select(keyOf(edge[end]))}>
                <Mark type={edge[end].type} /> <span dir="auto">{model.node(keyOf(edge[end]))?.caption ?? edge[end].id}</span>
              </button>
            </li>
          ))}
        </ul>
        {entity.value !== null && <History entity={name} at={model.at()} />}
      </div>
    </aside>
  );
}

/** Follow edges of a node one page further, and say how that went. */
export async function follow(model: GraphModel, node: NodeName, kind: EdgeKind = null): Promise<void> {
  try {
    const added = await model.expand(node, kind);
    const isLast = model.nextPage(keyOf(node), kind) === null;
    if (added >= 0) tell(`${counted(added, "more node")}${isLast ? "" : "; there are still more"}`);
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
  const next = model.nextPage(keyOf(node), count);
  const type = catalog.value?.edges.find((each) => each.name === count.edge);
  const other = count.direction === "out" ? type?.to : type?.from;
  return (
    <li>
      <b class="edge-word">{type?.word ?? count.edge}</b>
      <span class="soft">{other === undefined ? count.direction : count.direction === "out" ? other : `from ${other}`}</span>
      <span class="r">{number(count.total)}</span>
      <button class="button small" disabled={next === null} onClick={() => void follow(model, node, count)}>
        {next === null ? "Shown" : next === undefined ? "Show" : "More"}
      </button>
    </li>
  );
}
