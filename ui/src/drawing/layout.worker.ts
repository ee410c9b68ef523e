// Finds places for nodes, away from the page: forces, or layers from top to bottom.
import { forceCollide, forceLink, forceManyBody, forceSimulation, forceX, forceY, type SimulationNodeDatum } from "d3-force";

export interface ToLayout {
  run: number;
  way: "force" | "layers";
  x: Float32Array;
  y: Float32Array;
  radius: Float32Array;
  pinned: number[];
  from: Uint32Array;
  to: Uint32Array;
  /** Some nodes have their places already: move them less. */
  warm: boolean;
  /** Tell the places on the way, not only at rest. */
  moving: boolean;
}
export interface FromLayout {
  run: number;
  x: Float32Array;
  y: Float32Array;
  done: boolean;
}

let current = 0;

self.addEventListener("message", (event: MessageEvent<ToLayout>) => {
  current = event.data.run;
  void (event.data.way === "layers" ? layers(event.data) : forces(event.data));
});

function tell(run: number, x: ArrayLike<number>, y: ArrayLike<number>, done: boolean): void {
  const answer: FromLayout = { run, x: Float32Array.from(x), y: Float32Array.from(y), done };
  (self as unknown as Worker).postMessage(answer, [answer.x.buffer, answer.y.buffer]);
}

const pause = () => new Promise<void>((resume) => setTimeout(resume, 0));

async function forces(wanted: ToLayout): Promise<void> {
  const count = wanted.x.length;
  const pinned = new Set(wanted.pinned);
  const nodes: SimulationNodeDatum[] = Array.from({ length: count }, (_, i) => {
    const node: SimulationNodeDatum = {};
    if (!Number.isNaN(wanted.x[i])) Object.assign(node, { x: wanted.x[i], y: wanted.y[i] });
    if (pinned.has(i)) Object.assign(node, { fx: wanted.x[i], fy: wanted.y[i] });
    return node;
  });
  const links = Array.from(wanted.from, (from, i) => ({ source: from, target: wanted.to[i]! })).filter((each) => each.source !== each.target);
  const large = count > 2000;
  const simulation = forceSimulation(nodes)
    .force("link", forceLink(links).distance(70))
    .force("charge", forceManyBody().strength(large ? -60 : -260).distanceMax(large ? 400 : 900).theta(large ? 1.2 : 0.9))
    .force("x", forceX(0).strength(0.05))
    .force("y", forceY(0).strength(0.07))
    .force("collide", forceCollide((_, i) => wanted.radius[i]! + 7).iterations(large ? 1 : 2))
    .stop();
  const ticks = large ? 60 : 300;
  simulation.alphaDecay(1 - Math.pow(0.001, 1 / ticks));
  if (wanted.warm) simulation.alpha(0.35);
  let told = performance.now();
  for (let tick = 0; tick < ticks; tick++) {
    simulation.tick();
    const now = performance.now();
    if (now - told < 30) continue;
    told = now;
    if (wanted.moving) tell(wanted.run, nodes.map((each) => each.x!), nodes.map((each) => each.y!), false);
    // A newer request, if there is one, is heard here.
    await pause();
    if (wanted.run !== current) return;
  }
  tell(wanted.run, nodes.map((each) => each.x!), nodes.map((each) => each.y!), true);
}

async function layers(wanted: ToLayout): Promise<void> {
  const { Graph, layout } = await import("@dagrejs/dagre");
  const graph = new Graph();
  graph.setGraph({ rankdir: "TB", nodesep: 36, ranksep: 70 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (let i = 0; i < wanted.x.length; i++) graph.setNode(String(i), { width: 2 * wanted.radius[i]! + 30, height: 2 * wanted.radius[i]! + 16 });
  const seen = new Set<string>();
  for (let i = 0; i < wanted.from.length; i++) {
    const key = `${wanted.from[i]} ${wanted.to[i]}`;
    if (wanted.from[i] === wanted.to[i] || seen.has(key)) continue;
    seen.add(key);
    graph.setEdge(String(wanted.from[i]), String(wanted.to[i]), { width: 0, height: 0 });
  }
  try {
    layout(graph);
  } catch {
    return forces({ ...wanted, warm: false });
  }
  const places = Array.from(wanted.x, (_, i) => graph.node(String(i)) as { x: number; y: number });
  tell(wanted.run, places.map((each) => each.x), places.map((each) => each.y), true);
}
