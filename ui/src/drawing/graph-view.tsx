// A picture with everything around it: legend, tools, the list of the same nodes, and the panel of one of them.
import { effect, useComputed, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { EdgePanel, EntityPanel, follow } from "../entity-panel";
import { number } from "../parts";
import { calm, catalog, isDark } from "../state";
import { Legend, NodeList, Tools } from "./graph-tools";
import { edgeKey, keyOf, type GraphModel } from "./model";
import { coloursOf, Surface } from "./surface";

const PANEL = 320;

export interface GraphViewProps {
  model: GraphModel;
  /** Keys of nodes that rows chosen elsewhere stand for. */
  marked?: readonly string[];
  note?: string;
  empty: string;
}

export function GraphView({ model, marked = [], note, empty }: GraphViewProps) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const surface = useRef<Surface | null>(null);
  const way = useSignal<"force" | "layers">("force");
  const asList = useSignal(false);
  const marks = useSignal<readonly string[]>(marked);
  marks.value = marked;
  const waiting = useSignal(false);
  const described = useComputed(() => describe(model));

  useEffect(() => {
    // Places may still come when the picture has left the page, and `box` then is empty.
    const here = box.current!;
    const shown = new Surface(here, canvas.current!, coloursOf(document.documentElement));
    surface.current = shown;
    shown.onPlaces = (done) => {
      waiting.value = false;
      const { nodes } = model.shown.peek();
      if (shown.scene !== null && shown.scene.x.length === nodes.length)
        nodes.forEach((node, i) => model.places.set(keyOf(node), [shown.scene!.x[i]!, shown.scene!.y[i]!]));
      here.dataset["settled"] = String(done);
      here.dataset["places"] = placesText(model, shown);
    };
    const ends = [
      effect(() => {
        const { index } = model.shown.value;
        const types = catalog.value;
        if (types === null) return;
        const words = new Map(types.edges.map((edge) => [edge.name, edge.word]));
        const scene = model.scene(words, types.nodes.map((each) => each.name));
        const known = [...index.keys()].filter((key) => model.places.has(key)).length;
        const pinned = [...model.pinned].flatMap((key) => index.get(key) ?? []);
        here.dataset["settled"] = "false";
        waiting.value = calm.matches && known === 0 && scene.x.length > 0;
        shown.show(scene, way.value === "layers" && scene.x.length <= 300 ? "layers" : "force", pinned, !calm.matches, known > 0);
      }),
      effect(() => {
        const { edges, index } = model.shown.value;
        const at = (key: string) => index.get(key) ?? -1;
        const chosen = model.selected.value, edge = model.selectedEdge.value;
        shown.wish({
          selected: chosen === null ? -1 : at(chosen),
          selectedEdge: edge === null ? -1 : edges.findIndex((each) => edgeKey(each) === edge),
          marked: marks.value.map(at).filter((i) => i >= 0),
          covered: (chosen ?? edge) !== null && here.clientWidth > 700 ? PANEL : 0,
        });
      }),
      effect(() => {
        void isDark.value;
        queueMicrotask(() => shown.recolour(coloursOf(document.documentElement)));
      }),
    ];
    const detach = attach(here, canvas.current!, shown, model);
    return () => {
      for (const end of ends) end();
      detach();
      shown.close();
      surface.current = null;
    };
  }, [model]);

  const chosen = model.selected.value;
  const node = chosen === null ? undefined : model.node(chosen);
  const edge = model.selectedEdge.value === null ? undefined : model.edge(model.selectedEdge.value);
  return (
    <div class="picture">
      <div class="scene" ref={box} data-nodes={model.shown.value.nodes.length} data-edges={model.shown.value.edges.length}>
        <div class="stage" role="application" aria-roledescription="graph" tabIndex={0} aria-label={described.value} hidden={asList.value} onKeyDown={(event) => onKey(event, model, surface.current)}>
          <canvas ref={canvas} aria-hidden="true" />
        </div>
        {model.isEmpty.value && <p class="nothing">{empty}</p>}
        {waiting.value && <p class="nothing">Finding places …</p>}
        {asList.value && <NodeList model={model} />}
        <Legend model={model} />
        {note && !asList.value && <p class="note small">{note}</p>}
        {model.refused.value !== "" && <p class="refused" role="alert">{model.refused.value}</p>}
        <Tools model={model} surface={surface} way={way} asList={asList} />
      </div>
      {node !== undefined && <EntityPanel key={chosen} node={node} model={model} />}
      {edge !== undefined && <EdgePanel key={edgeKey(edge)} edge={edge} model={model} />}
    </div>
  );
}

function describe(model: GraphModel): string {
  const { nodes, edges } = model.shown.value;
  const chosen = model.selected.value;
  const node = chosen === null ? undefined : model.node(chosen);
  const all = `Picture of ${number(nodes.length)} nodes and ${number(edges.length)} edges.`;
  return node === undefined ? `${all} Arrow keys choose a node.` : `${all} ${node.type} ${node.caption} is chosen. Enter follows its edges.`;
}

/** Where nodes lie on the screen, for whoever drives the page without eyes. */
function placesText(model: GraphModel, surface: Surface): string {
  const { nodes } = model.shown.peek();
  if (nodes.length > 200 || surface.scene === null) return "";
  return JSON.stringify(
    nodes.map((node, i) => [
      node.type,
      node.id,
      Math.round(surface.scene!.x[i]! * surface.view.k + surface.view.x),
      Math.round(surface.scene!.y[i]! * surface.view.k + surface.view.y),
    ]),
  );
}

function attach(box: HTMLElement, canvas: HTMLCanvasElement, surface: Surface, model: GraphModel): () => void {
  const fingers = new Map<number, [number, number]>();
  let grabbed = -1, walked = 0;
  const place = (event: MouseEvent): [number, number] => {
    const corner = box.getBoundingClientRect();
    return [event.clientX - corner.left, event.clientY - corner.top];
  };
  const stage = canvas.parentElement!;
  const down = (event: PointerEvent) => {
    if (event.button !== 0) return;
    stage.setPointerCapture(event.pointerId);
    const at = place(event);
    fingers.set(event.pointerId, at);
    grabbed = fingers.size === 1 ? surface.pick(...at) : -1;
    walked = 0;
  };
  const move = (event: PointerEvent) => {
    const at = place(event), before = fingers.get(event.pointerId);
    if (before === undefined) {
      stage.style.cursor = surface.pick(...at) >= 0 ? "pointer" : "";
      return;
    }
    const dx = at[0] - before[0], dy = at[1] - before[1];
    if (fingers.size === 2) {
      const other = [...fingers].find(([id]) => id !== event.pointerId)![1];
      const was = Math.hypot(before[0] - other[0], before[1] - other[1]), is = Math.hypot(at[0] - other[0], at[1] - other[1]);
      surface.zoom(is / (was || 1), (at[0] + other[0]) / 2, (at[1] + other[1]) / 2);
    } else if ((walked += Math.abs(dx) + Math.abs(dy)) > 4) {
      if (grabbed >= 0) surface.move(grabbed, dx, dy);
      else surface.pan(dx, dy);
    }
    fingers.set(event.pointerId, at);
  };
  const up = (event: PointerEvent) => {
    if (!fingers.delete(event.pointerId)) return;
    const node = grabbed >= 0 ? model.shown.peek().nodes[grabbed] : undefined;
    if (walked <= 4) {
      const edge = node === undefined ? model.shown.peek().edges[surface.pickEdge(...place(event))] : undefined;
      model.select(node === undefined ? null : keyOf(node), edge === undefined ? null : edgeKey(edge));
    }
    else if (node !== undefined) {
      model.pinned.add(keyOf(node));
      model.places.set(keyOf(node), [surface.scene!.x[grabbed]!, surface.scene!.y[grabbed]!]);
    }
    grabbed = -1;
  };
  const twice = (event: MouseEvent) => {
    const at = surface.pick(...place(event));
    const node = model.shown.peek().nodes[at];
    if (node !== undefined) void follow(model, node);
  };
  const wheel = (event: WheelEvent) => {
    event.preventDefault();
    surface.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), ...place(event));
  };
  stage.addEventListener("pointerdown", down);
  stage.addEventListener("pointermove", move);
  stage.addEventListener("pointerup", up);
  stage.addEventListener("pointercancel", up);
  stage.addEventListener("dblclick", twice);
  stage.addEventListener("wheel", wheel, { passive: false });
  return () => {
    stage.removeEventListener("pointerdown", down);
    stage.removeEventListener("pointermove", move);
    stage.removeEventListener("pointerup", up);
    stage.removeEventListener("pointercancel", up);
    stage.removeEventListener("dblclick", twice);
    stage.removeEventListener("wheel", wheel);
  };
}

function onKey(event: KeyboardEvent, model: GraphModel, surface: Surface | null): void {
  if (surface === null || surface.scene === null) return;
  const chosen = model.selected.value;
  const node = chosen === null ? undefined : model.node(chosen);
  const { key } = event;
  if (key.startsWith("Arrow")) walk(key, model, surface);
  else if (key === "Enter" && node !== undefined) void follow(model, node);
  else if ((key === "Delete" || key === "Backspace") && chosen !== null) model.hide(chosen);
  else if (key.toLowerCase() === "z" && (event.ctrlKey || event.metaKey)) model.undo();
  else if (event.ctrlKey || event.metaKey || event.altKey) return;
  else if (key === "f") surface.fit();
  else if (key === "+" || key === "=") surface.zoom(1.25);
  else if (key === "-") surface.zoom(0.8);
  else if (key === "Escape" && (chosen ?? model.selectedEdge.value) !== null) model.select(null);
  else return;
  event.preventDefault();
  event.stopPropagation();
}

/** Go to the neighbour that lies in the direction of an arrow; without a selection to the middle. */
function walk(key: string, model: GraphModel, surface: Surface): void {
  const { nodes, index } = model.shown.value;
  const scene = surface.scene!;
  if (nodes.length === 0 || scene.x.length !== nodes.length) return;
  const from = model.selected.value === null ? undefined : index.get(model.selected.value);
  let next = -1;
  if (from === undefined) {
    let most = -1;
    nodes.forEach((_, i) => {
      if (scene.degree[i]! > most) {
        most = scene.degree[i]!;
        next = i;
      }
    });
  } else {
    const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key] ?? [0, 0];
    let best = -Infinity;
    for (let i = 0; i < scene.from.length; i++) {
      const other: number = scene.from[i] === from ? scene.to[i]! : scene.to[i] === from ? scene.from[i]! : -1;
      if (other < 0 || other === from) continue;
      const x = scene.x[other]! - scene.x[from]!, y = scene.y[other]! - scene.y[from]!;
      const along = (x * dx! + y * dy!) / (Math.hypot(x, y) || 1);
      if (along > 0.2 && along > best) {
        best = along;
        next = other;
      }
    }
  }
  const node = nodes[next];
  if (node === undefined) return;
  model.select(keyOf(node));
  surface.reveal(next);
}
