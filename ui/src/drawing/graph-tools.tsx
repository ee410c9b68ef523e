// What stands around a picture: its legend, its tools, and the list of the same nodes and edges.
import type { Property } from "../api";
import { follow } from "../entity-panel";
import { counted, Icon, Mark, Menu, number, save } from "../parts";
import { catalog } from "../state";
import { edgeKey, keyOf, type GraphModel } from "./model";
import type { Surface } from "./surface";

export const Legend = ({ model }: { model: GraphModel }) => (
  <ul class="legend" aria-label="Types in the picture">
    {[...model.types.value].map(([type, count]) => {
      const off = model.hiddenTypes.value.has(type);
      return (
        <li key={type}>
          <button class={`chip${off ? " off" : ""}`} aria-pressed={!off} title={off ? `Show ${type} again` : `Hide ${type}`} onClick={() => model.toggleType(type)}>
            <Mark type={type} />
            {type} <span class="faint">{number(count)}</span>
          </button>
        </li>
      );
    })}
  </ul>
);

interface ToolsProps {
  model: GraphModel;
  surface: { current: Surface | null };
  way: { value: "force" | "layers" };
  asList: { value: boolean };
}

export function Tools({ model, surface, way, asList }: ToolsProps) {
  const few = model.shown.value.nodes.length <= 300;
  return (
    <div class="zoom" role="toolbar" aria-label="Picture">
      <button class="tool" title="Zoom in (+)" aria-label="Zoom in" onClick={() => surface.current?.zoom(1.25)}>
        <Icon name="plus" />
      </button>
      <button class="tool" title="Zoom out (-)" aria-label="Zoom out" onClick={() => surface.current?.zoom(0.8)}>
        <Icon name="minus" />
      </button>
      <button class="tool" title="Fit (f)" aria-label="Fit" onClick={() => surface.current?.fit()}>
        <Icon name="fit" />
      </button>
      <button
        class="tool"
        title={few ? "Layers, or by forces" : "Layers are for up to 300 nodes"}
        aria-label="Layers"
        aria-pressed={way.value === "layers"}
        disabled={!few}
        onClick={() => {
          model.places.clear();
          way.value = way.value === "layers" ? "force" : "layers";
        }}
      >
        <Icon name="layers" />
      </button>
      <button class="tool" title="Undo (Ctrl-Z)" aria-label="Undo" disabled={!model.canUndo.value} onClick={() => model.undo()}>
        <Icon name="undo" />
      </button>
      <button class="tool" title="The same as a list" aria-label="List" aria-pressed={asList.value} onClick={() => (asList.value = !asList.value)}>
        <Icon name="list" />
      </button>
      <button
        class="tool"
        title="Download the picture"
        aria-label="Download the picture"
        onClick={() => void surface.current?.download().then((blob) => blob && save("graph.png", blob))}
      >
        <Icon name="load" />
      </button>
      <Looks model={model} />
      <input class="field filter" type="search" placeholder="Filter" aria-label="Filter the picture" title="Words, or property=value" value={model.filter.value} onInput={(event) => filterBy(model, event.currentTarget.value)} />
    </div>
  );
}

/** Filter the picture; a property that the filter names is read first. */
function filterBy(model: GraphModel, text: string): void {
  model.setFilter(text);
  const named = new Set([...text.toLowerCase().matchAll(/(\w+)=/g)].map((match) => match[1]));
  const wanted = (catalog.value?.nodes ?? []).flatMap((type) => {
    const names = type.properties.filter((each) => named.has(each.name.toLowerCase()) && isShort(each)).map((each) => each.name);
    return names.length > 0 && model.types.value.has(type.name) ? [[type.name, names] as const] : [];
  });
  if (wanted.length > 0) void model.load(Object.fromEntries(wanted)).catch(refusedBy(model));
}

const isShort = (property: Property): boolean => !property.list && property.type !== "Vector" && property.type !== "Blob";
const refusedBy = (model: GraphModel) => (error: unknown) => {
  model.refused.value = (error as Error).message;
};

/** How nodes look: which property is written beside them, and whether their size tells how many edges they have. */
const Looks = ({ model }: { model: GraphModel }) => (
  <Menu label="Captions and sizes" button={<span class="tool"><Icon name="pencil" /></span>}>
    {(close) => (
      <>
        <p>Captions</p>
        {[...model.types.value.keys()].slice(0, 30).map((type) => (
          <label key={type} class="caption-of">
            <Mark type={type} /> {type}
            <select class="field" value={model.captions.value.get(type) ?? ""} onChange={(event) => void model.setCaption(type, event.currentTarget.value || null).catch(refusedBy(model))}>
              <option value="">name or title</option>
              {(catalog.value?.nodes.find((each) => each.name === type)?.properties ?? []).filter(isShort).map((each) => (
                <option key={each.name} value={each.name}>{each.name}</option>
              ))}
            </select>
          </label>
        ))}
        <p>Size</p>
        <button aria-pressed={model.sameSize.value} onClick={() => { close(); model.sameSize.value = !model.sameSize.value; }}>
          {model.sameSize.value ? "Larger with more edges" : "All of one size"}
        </button>
        <button onClick={() => { close(); save("graph.json", new Blob([model.json()], { type: "application/json" })); }}>
          Download as JSON
        </button>
      </>
    )}
  </Menu>
);

/** The most nodes, and the most edges, that the list has. */
const LISTED = 500;

export const NodeList = ({ model }: { model: GraphModel }) => {
  const { nodes, edges } = model.shown.value;
  return (
    <div class="nodes">
      <h2>{counted(nodes.length, "node")}</h2>
      <ul>
        {nodes.slice(0, LISTED).map((node) => {
          const key = keyOf(node);
          return (
            <li key={key}>
              <button class="bare row" aria-pressed={model.selected.value === key} onClick={() => model.select(key)}>
                <Mark type={node.type} /> <span dir="auto">{model.caption(node)}</span> <span class="faint">{node.type}</span>
              </button>
              <button class="button small" onClick={() => void follow(model, node)}>
                Expand
              </button>
              <button class="button small" onClick={() => model.hide(key)}>
                Hide
              </button>
            </li>
          );
        })}
      </ul>
      {nodes.length > LISTED && <p class="soft">The first {LISTED} are listed; filter for others.</p>}
      <h2>{counted(edges.length, "edge")}</h2>
      <ul>
        {edges.slice(0, LISTED).map((edge) => (
          <li key={edgeKey(edge)}>
            <button class="bare row" aria-pressed={model.selectedEdge.value === edgeKey(edge)} onClick={() => model.select(null, edgeKey(edge))}>
              <span dir="auto">{model.node(keyOf(edge.from))?.caption ?? edge.from.id}</span> <b class="edge-word">{edge.type}</b> <span dir="auto">{model.node(keyOf(edge.to))?.caption ?? edge.to.id}</span>
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
};
