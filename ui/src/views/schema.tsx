// The schema: a diagram of its types, the details of one of them, and its source.
import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { api, type Catalog, type EdgeType, type Interface, type NodeType, type Property } from "../api";
import { allKinds, counted, Failure, Icon, Mark, number, Tabs } from "../parts";
import { lookAtType } from "../query/made";
import { catalog, chosenType, rows, target } from "../state";
import { diagramOf, type Diagram, WIDE } from "./schema-diagram";
import { ask } from "./overview";

/** Below this width a diagram goes from top to bottom. */
const NARROW = 560;
/** What the tools at the foot of the diagram cover. */
const BELOW = 60;
const WAYS = [["diagram", "Diagram"], ["source", "Source"]] as const;

export function SchemaView() {
  const way = useSignal<"diagram" | "source">("diagram");
  const chosen = chosenType;
  const types = catalog.value;
  const node = types?.nodes.find((each) => each.name === chosen.value);
  const edge = types?.edges.find((each) => each.name === chosen.value);
  const face = types?.interfaces.find((each) => each.name === chosen.value);
  const isChosen = node !== undefined || edge !== undefined || face !== undefined;
  return (
    <main id="main" class="schema">
      <div class="head">
        <h1>Schema</h1>
        <p class="soft">
          {counted(types?.nodes.length ?? 0, "node type")}, {counted(types?.edges.length ?? 0, "edge type")}
        </p>
        <span class="gap" />
        <Tabs label="Schema" all={WAYS} chosen={way.value} choose={(next) => (way.value = next)} />
      </div>
      <div class="columns">
        <div class="left">
          {types !== null && way.value === "source" && <Source />}
          {types !== null && way.value === "diagram" && (types.nodes.length + types.interfaces.length === 0 ? <p class="nothing">This schema has no types yet.</p> : <DiagramOf types={types} chosen={chosen} />)}
        </div>
        <aside class="right" aria-label="Type">
          {node !== undefined && <TypeDetails type={node} />}
          {edge !== undefined && <EdgeDetails edge={edge} />}
          {face !== undefined && <InterfaceDetails type={face} />}
          {!isChosen && types !== null && <TypeList types={types} chosen={chosen} />}
          {isChosen && (
            <button class="button small" onClick={() => (chosen.value = null)}>
              All types
            </button>
          )}
        </aside>
      </div>
    </main>
  );
}

const TypeList = ({ types, chosen }: { types: Catalog; chosen: { value: string | null } }) => (
  <>
    <h2>Node types</h2>
    <ul class="lately">
      {types.nodes.map((each) => (
        <li key={each.name}>
          <Mark type={each.name} />
          <button class="bare" onClick={() => (chosen.value = each.name)}>
            {each.name}
          </button>
          <span class="r">{number(rows.value.get(`node:${each.name}`) ?? 0)}</span>
        </li>
      ))}
    </ul>
    <h2>Edge types</h2>
    <ul class="lately">
      {types.edges.map((each) => (
        <li key={each.name}>
          <button class="bare" onClick={() => (chosen.value = each.name)}>
            <b class="edge-word">{each.word}</b> {each.from} → {each.to}
          </button>
          <span class="r">{number(rows.value.get(`edge:${each.name}`) ?? 0)}</span>
        </li>
      ))}
    </ul>
    {types.interfaces.length > 0 && <h2>Interfaces</h2>}
    <ul class="lately">
      {types.interfaces.map((each) => (
        <li key={each.name}>
          <button class="bare" onClick={() => (chosen.value = each.name)}>
            {each.name}
          </button>
        </li>
      ))}
    </ul>
  </>
);

const typeWord = (property: Property): string => {
  const word = property.vector_dim === undefined ? property.type : `${property.type}(${property.vector_dim})`;
  return `${property.list ? `[${word}]` : word}${property.nullable ? "?" : ""}`;
};

const marks = (property: Property, key: readonly string[] = []): string[] => [
  ...(key.includes(property.name) ? ["key"] : []),
  ...(property.unique && !key.includes(property.name) ? ["unique"] : []),
  ...(property.index === undefined ? [] : [`${property.index} index`]),
  ...(property.metric === undefined ? [] : [`metric ${property.metric}`]),
  ...(property.embed === undefined ? [] : [`embed ${property.embed.source}`]),
];

const Properties = ({ properties, keys }: { properties: readonly Property[]; keys: readonly string[] }) => (
  <dl class="props">
    {properties.map((each) => (
      <div key={each.name}>
        <dt title={each.name}>{each.name}</dt>
        <dd>
          <span class="type-word">{typeWord(each)}</span>
          {marks(each, keys).map((mark) => (
            <span class="chip" key={mark}>
              {mark}
            </span>
          ))}
          {each.enum !== undefined && <p class="small soft">{each.enum.join(", ")}</p>}
          {each.constraints.map((rule) => (
            <code class="rule" key={rule}>
              {rule}
            </code>
          ))}
          {each.description !== undefined && <p class="small soft">{each.description}</p>}
        </dd>
      </div>
    ))}
  </dl>
);

const TypeDetails = ({ type }: { type: NodeType }) => (
  <section class="details">
    <h2>
      <Mark type={type.name} /> {type.name} <span class="faint">{counted(rows.value.get(`node:${type.name}`) ?? 0, "row")}</span>
    </h2>
    {type.description !== undefined && <p class="soft">{type.description}</p>}
    {type.implements.length > 0 && <p class="soft">implements {type.implements.join(", ")}</p>}
    <Properties properties={type.properties} keys={type.key} />
    <button class="button main" onClick={() => ask(lookAtType(type))}>
      <Icon name="play" /> Sample 25
    </button>
  </section>
);

const InterfaceDetails = ({ type }: { type: Interface }) => (
  <section class="details">
    <h2>
      {type.name} <span class="faint">interface</span>
    </h2>
    {type.description !== undefined && <p class="soft">{type.description}</p>}
    <Properties properties={type.properties} keys={[]} />
  </section>
);

const EdgeDetails = ({ edge }: { edge: EdgeType }) => (
  <section class="details">
    <h2>
      <b class="edge-word">{edge.word}</b> <span class="faint">{counted(rows.value.get(`edge:${edge.name}`) ?? 0, "row")}</span>
    </h2>
    <p>
      {edge.name}: {edge.from} → {edge.to}
    </p>
    <p class="soft">
      {edge.card.max === undefined ? (edge.card.min === 0 ? "any number" : `${edge.card.min} or more`) : `${edge.card.min} to ${edge.card.max}`} of them leave a {edge.from}
    </p>
    {edge.description !== undefined && <p class="soft">{edge.description}</p>}
    <Properties properties={edge.properties} keys={[]} />
  </section>
);

function Source() {
  const text = useSignal("");
  const error = useSignal<unknown>(null);
  useEffect(() => {
    api.schema(target.value).then((found) => (text.value = found.schema_source), (failed: unknown) => (error.value = failed));
  }, [target.value]);
  if (error.value !== null) return <Failure error={error.value} />;
  return (
    <pre class="source" tabIndex={0} role="region" aria-label="Source of the schema">
      {coloured(text.value)}
    </pre>
  );
}

const WORD = /(\/\/[^\n]*)|("(?:[^"\\]|\\.)*")|(@\w+)|\b(node|edge|interface|implements|enum)\b|\b([A-Z]\w*)\b/g;
const CLASSES = ["comment", "string", "keyword", "keyword", "type"];

function coloured(text: string) {
  const parts: preact.ComponentChildren[] = [];
  let at = 0;
  for (const match of text.matchAll(WORD)) {
    parts.push(text.slice(at, match.index));
    const kind = match.slice(1).findIndex((group) => group !== undefined);
    parts.push(<span class={`tok-${CLASSES[kind]}`}>{match[0]}</span>);
    at = match.index + match[0].length;
  }
  parts.push(text.slice(at));
  return parts;
}

function DiagramOf({ types, chosen }: { types: Catalog; chosen: { value: string | null } }) {
  const diagram = useSignal<Diagram | null>(null);
  const view = useSignal({ k: 1, x: 0, y: 0 });
  const box = useRef<SVGSVGElement>(null);
  const kinds = useMemo(allKinds, [types]);
  const fit = () => {
    const made = diagram.value, element = box.current;
    if (made === null || element === null) return;
    const k = Math.min(1.2, (element.clientWidth - 40) / made.width, (element.clientHeight - BELOW - 20) / made.height);
    view.value = { k, x: (element.clientWidth - k * made.width) / 2, y: (element.clientHeight + 20 - BELOW - k * made.height) / 2 };
  };
  useEffect(() => {
    void diagramOf(types, box.current!.clientWidth < NARROW).then((made) => {
      diagram.value = made;
      fit();
    });
    const seen = new ResizeObserver(fit);
    const element = box.current!;
    seen.observe(element);
    const wheel = (event: WheelEvent) => {
      event.preventDefault();
      const factor = Math.exp(-event.deltaY * 0.0015), corner = element.getBoundingClientRect();
      const px = event.clientX - corner.left, py = event.clientY - corner.top, { k, x, y } = view.value;
      const next = Math.min(4, Math.max(0.05, k * factor)), change = next / k;
      view.value = { k: next, x: px - (px - x) * change, y: py - (py - y) * change };
    };
    element.addEventListener("wheel", wheel, { passive: false });
    return () => {
      seen.disconnect();
      element.removeEventListener("wheel", wheel);
    };
  }, [types]);
  const { k, x, y } = view.value;
  const made = diagram.value;
  return (
    <div class="scene diagram">
      <svg
        ref={box}
        role="group"
        aria-label="Diagram of the schema"
        onPointerMove={(event) => {
          if (event.buttons === 1) view.value = { ...view.value, x: view.value.x + event.movementX, y: view.value.y + event.movementY };
        }}
      >
        <defs>
          <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto-start-reverse">
            <path d="M0 0.5L8 4L0 7.5z" class="head-of" />
          </marker>
        </defs>
        <g transform={`translate(${x} ${y}) scale(${k})`}>
          {made?.edges.map((each, i) => (
            <g key={i}>
              <path class={each.dashed ? "wire dashed" : "wire"} d={each.path} marker-end="url(#arrow)" />
              {each.words.map((word, j) => (
                <text key={word.name} class="word" x={each.x} y={each.y + (j - (each.words.length - 1) / 2) * 15} onClick={() => (chosen.value = word.name)}>
                  {word.text}
                </text>
              ))}
            </g>
          ))}
          {made?.boxes.map((each) => {
            const kind = kinds.get(each.name);
            return (
              <g
                key={each.name}
                class={`box-of t${kind?.colour ?? 8}${each.dashed ? " dashed" : ""}${chosen.value === each.name ? " chosen" : ""}`}
                transform={`translate(${each.x - WIDE / 2} ${each.y - each.height / 2})`}
                role="button"
                tabIndex={0}
                onClick={() => (chosen.value = each.name)}
                onKeyDown={(event) => event.key === "Enter" && (chosen.value = each.name)}
              >
                <rect width={WIDE} height={each.height} rx="9" />
                <path class="stripe" d={`M0 9a9 9 0 019-9H${WIDE - 9}a9 9 0 019 9v21H0z`} />
                <text class="title" x="12" y="20">
                  {each.name}
                </text>
                {each.count !== null && (
                  <text class="count" x={WIDE - 12} y="20">
                    {number(rows.value.get(`node:${each.name}`) ?? 0)}
                  </text>
                )}
                {each.lines.map((line, i) => (
                  <g key={i}>
                    <text class="prop" x="12" y={48 + i * 18}>
                      {line.name} <tspan class="mark">{line.marks}</tspan>
                    </text>
                    <text class="kind" x={WIDE - 12} y={48 + i * 18}>
                      {line.type}
                    </text>
                  </g>
                ))}
              </g>
            );
          })}
        </g>
      </svg>
      <div class="zoom" role="toolbar" aria-label="Diagram">
        <button class="tool" aria-label="Zoom in" onClick={() => (view.value = { ...view.value, k: view.value.k * 1.2 })}>
          <Icon name="plus" />
        </button>
        <button class="tool" aria-label="Zoom out" onClick={() => (view.value = { ...view.value, k: view.value.k / 1.2 })}>
          <Icon name="minus" />
        </button>
        <button class="tool" aria-label="Fit" onClick={fit}>
          <Icon name="fit" />
        </button>
      </div>
    </div>
  );
}
