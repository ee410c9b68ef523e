// The graph of a picture: what is in it, what is hidden, and every step back.
import { batch, computed, signal } from "@preact/signals";
import { api, type GraphEdge, type GraphNode, type NodeName, type Subgraph, type Target } from "../api";
import { kindsOf } from "../kinds";
import { bends, MOST_EDGES, MOST_NODES, type Scene } from "./scene";

export const keyOf = (node: NodeName): string => `${node.type}\u0000${node.id}`;
const edgeKey = (edge: GraphEdge): string => `${edge.type}\u0000${edge.id}`;

interface Content {
  nodes: ReadonlyMap<string, GraphNode>;
  edges: ReadonlyMap<string, GraphEdge>;
  hidden: ReadonlySet<string>;
  hiddenTypes: ReadonlySet<string>;
  /** What each expansion brought, so that it can be taken away again. */
  brought: ReadonlyMap<string, ReadonlySet<string>>;
}

const EMPTY: Content = { nodes: new Map(), edges: new Map(), hidden: new Set(), hiddenTypes: new Set(), brought: new Map() };

export interface Shown {
  nodes: GraphNode[];
  edges: GraphEdge[];
  index: Map<string, number>;
}

export class GraphModel {
  private readonly content = signal<Content>(EMPTY);
  private readonly steps: Content[] = [];
  readonly canUndo = signal(false);
  readonly selected = signal<string | null>(null);
  readonly pinned = new Set<string>();
  readonly filter = signal("");
  /** Why the last wish was refused. */
  readonly refused = signal("");
  /** Places of nodes that were drawn, by their keys. */
  readonly places = new Map<string, [number, number]>();

  readonly types = computed(() => {
    const counts = new Map<string, number>();
    for (const node of this.content.value.nodes.values()) counts.set(node.type, (counts.get(node.type) ?? 0) + 1);
    return new Map([...counts].sort(([a], [b]) => (a < b ? -1 : 1)));
  });
  readonly hiddenTypes = computed(() => this.content.value.hiddenTypes);
  readonly isEmpty = computed(() => this.content.value.nodes.size === 0);

  /** What is drawn: everything but what is hidden or does not fit the filter. */
  readonly shown = computed<Shown>(() => {
    const { nodes, edges, hidden, hiddenTypes } = this.content.value;
    const fits = filterOf(this.filter.value);
    const seen: GraphNode[] = [];
    const index = new Map<string, number>();
    for (const [key, node] of nodes) {
      if (hidden.has(key) || hiddenTypes.has(node.type) || !fits(node)) continue;
      index.set(key, seen.length);
      seen.push(node);
    }
    const between = [...edges.values()].filter((edge) => index.has(keyOf(edge.from)) && index.has(keyOf(edge.to)));
    return { nodes: seen, edges: between, index };
  });

  node(key: string): GraphNode | undefined {
    return this.content.value.nodes.get(key);
  }

  has(key: string): boolean {
    return this.content.value.nodes.has(key);
  }

  expanded(key: string): boolean {
    return this.content.value.brought.has(key);
  }

  /** Begin anew with these. */
  reset(graph: Pick<Subgraph, "nodes" | "edges">): void {
    this.steps.length = 0;
    this.places.clear();
    this.pinned.clear();
    const nodes = new Map(graph.nodes.slice(0, MOST_NODES).map((node) => [keyOf(node), node]));
    const edges = new Map(graph.edges.slice(0, MOST_EDGES).map((edge) => [edgeKey(edge), edge]));
    batch(() => {
      this.content.value = { ...EMPTY, nodes, edges };
      this.selected.value = null;
      this.canUndo.value = false;
      this.refused.value = "";
      this.filter.value = "";
    });
  }

  private step(next: Partial<Content>): void {
    this.steps.push(this.content.value);
    batch(() => {
      this.content.value = { ...this.content.value, ...next };
      this.canUndo.value = true;
      const chosen = this.selected.value;
      if (chosen !== null && !this.shown.value.index.has(chosen)) this.selected.value = null;
    });
  }

  undo(): void {
    const before = this.steps.pop();
    if (before === undefined) return;
    batch(() => {
      this.content.value = before;
      this.canUndo.value = this.steps.length > 0;
      const chosen = this.selected.value;
      if (chosen !== null && !before.nodes.has(chosen)) this.selected.value = null;
    });
  }

  hide(key: string): void {
    this.step({ hidden: new Set(this.content.value.hidden).add(key) });
  }

  toggleType(type: string): void {
    const hiddenTypes = new Set(this.content.value.hiddenTypes);
    if (!hiddenTypes.delete(type)) hiddenTypes.add(type);
    this.step({ hiddenTypes });
  }

  /** Add what an expansion of a node found; return how many nodes are new, or -1 if there is no room. */
  add(center: string, graph: Pick<Subgraph, "nodes" | "edges">): number {
    const { nodes, edges, hidden, brought } = this.content.value;
    const allNodes = new Map(nodes), allEdges = new Map(edges), shown = new Set(hidden);
    const fresh = new Set(brought.get(center));
    let added = 0;
    for (const node of graph.nodes) {
      const key = keyOf(node);
      shown.delete(key);
      if (allNodes.has(key)) continue;
      allNodes.set(key, node);
      fresh.add(key);
      added++;
    }
    for (const edge of graph.edges) allEdges.set(edgeKey(edge), edge);
    if (allNodes.size > MOST_NODES || allEdges.size > MOST_EDGES) {
      this.refused.value =
        `A picture holds ${MOST_NODES.toLocaleString("en")} nodes and ${MOST_EDGES.toLocaleString("en")} edges; with these it would have ` +
        `${allNodes.size.toLocaleString("en")} and ${allEdges.size.toLocaleString("en")}. Hide some, or ask a narrower query.`;
      return -1;
    }
    this.refused.value = "";
    const place = this.places.get(center);
    if (place !== undefined)
      [...fresh].forEach((key, i) => {
        if (!this.places.has(key)) this.places.set(key, [place[0] + 40 * Math.cos(i * 2.4), place[1] + 40 * Math.sin(i * 2.4)]);
      });
    this.step({ nodes: allNodes, edges: allEdges, hidden: shown, brought: new Map(brought).set(center, fresh) });
    return added;
  }

  /** Take away what the expansion of a node brought. */
  collapse(center: string): void {
    const { nodes, edges, brought } = this.content.value;
    const gone = brought.get(center);
    if (gone === undefined) return;
    const left = new Map([...nodes].filter(([key]) => !gone.has(key)));
    const between = new Map([...edges].filter(([, edge]) => left.has(keyOf(edge.from)) && left.has(keyOf(edge.to))));
    const others = new Map([...brought].filter(([key]) => key !== center && left.has(key)));
    this.step({ nodes: left, edges: between, brought: others });
  }

  /** What the painter and the layout get. */
  scene(words: ReadonlyMap<string, string>, allTypes: readonly string[]): Scene {
    const { nodes, edges, index } = this.shown.value;
    const kinds = kindsOf(allTypes);
    const looks = [...kinds.values()];
    const lookAt = new Map(looks.map((kind, i) => [kind.name, i]));
    const from = Uint32Array.from(edges, (edge) => index.get(keyOf(edge.from))!);
    const to = Uint32Array.from(edges, (edge) => index.get(keyOf(edge.to))!);
    const degree = new Uint32Array(nodes.length);
    for (let i = 0; i < from.length; i++) {
      degree[from[i]!]!++;
      degree[to[i]!]!++;
    }
    const names = [...new Set(edges.map((edge) => edge.type))];
    const nameAt = new Map(names.map((name, i) => [name, i]));
    const places = nodes.map((node) => this.places.get(keyOf(node)));
    return {
      x: Float32Array.from(places, (place) => place?.[0] ?? NaN),
      y: Float32Array.from(places, (place) => place?.[1] ?? NaN),
      radius: Float32Array.from(degree, (count) => Math.min(22, 9 + 1.9 * Math.sqrt(count))),
      look: Uint16Array.from(nodes, (node) => lookAt.get(node.type) ?? 0),
      captions: nodes.map((node) => node.caption),
      degree,
      from,
      to,
      bend: bends(from, to),
      word: Uint16Array.from(edges, (edge) => nameAt.get(edge.type)!),
      words: names.map((name) => words.get(name) ?? name),
      looks,
    };
  }

  json(): string {
    const { nodes, edges } = this.shown.value;
    return JSON.stringify({ nodes, edges }, null, 2);
  }
}

function filterOf(text: string): (node: GraphNode) => boolean {
  const words = text.toLowerCase().split(/\s+/).filter((word) => word !== "");
  if (words.length === 0) return () => true;
  return (node) => {
    const all = `${node.type} ${node.id} ${node.caption}`.toLowerCase();
    return words.every((word) => all.includes(word));
  };
}

/** Follow the edges of a node: a page of neighbours, and where the next one begins. */
export async function expand(
  model: GraphModel,
  node: NodeName,
  target: Target,
  more: { edges?: string[]; direction?: "out" | "in"; after?: string } = {},
): Promise<{ added: number; next: string | undefined }> {
  const found = await api.neighbors(node, target, { ...more, limit: 100 });
  const added = model.add(keyOf(node), { nodes: [found.center, ...found.nodes], edges: found.edges });
  return { added, next: found.next };
}
