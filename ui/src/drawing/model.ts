// The graph of a picture: what is in it, what is hidden, and every step back.
import { batch, computed, signal } from "@preact/signals";
import { api, type GraphEdge, type GraphNode, type NodeName, type Properties, type Subgraph, type Target } from "../api";
import { kindsOf } from "../kinds";
import { textOf } from "../values";
import { bends, MOST_EDGES, MOST_NODES, type Scene } from "./scene";

export const keyOf = (node: NodeName): string => `${node.type}\u0000${node.id}`;
/** How many neighbours one step of an expansion brings. */
const PAGE = 100;
export const edgeKey = (edge: GraphEdge): string => `${edge.type}\u0000${edge.id}`;

interface Content {
  nodes: ReadonlyMap<string, GraphNode>;
  edges: ReadonlyMap<string, GraphEdge>;
  hidden: ReadonlySet<string>;
  hiddenTypes: ReadonlySet<string>;
  filter: string;
  /** What each expansion brought, so that it can be taken away again. */
  brought: ReadonlyMap<string, ReadonlySet<string>>;
  /** Where the next page of an expansion begins, by node and kind of edge; null after the last one. */
  pages: ReadonlyMap<string, string | null>;
}

const EMPTY: Content = { nodes: new Map(), edges: new Map(), hidden: new Set(), hiddenTypes: new Set(), filter: "", brought: new Map(), pages: new Map() };

/** One kind of edge of a node, in one direction; all of them without it. */
export type EdgeKind = { edge: string; direction: "out" | "in" } | null;
const pageKey = (node: string, kind: EdgeKind): string => (kind === null ? node : `${node}\u0000${kind.edge}\u0000${kind.direction}`);

export interface Shown {
  nodes: GraphNode[];
  edges: GraphEdge[];
  index: Map<string, number>;
}

export class GraphModel {
  private readonly content = signal<Content>(EMPTY);
  private readonly steps: Content[] = [];
  readonly canUndo = signal(false);
  /** The key of the node, or of the edge, that is looked at; at most one of them is. */
  readonly selected = signal<string | null>(null);
  readonly selectedEdge = signal<string | null>(null);
  readonly pinned = new Set<string>();
  readonly filter = computed(() => this.content.value.filter);
  /** Per type the property that captions show; without one the server's choice. */
  readonly captions = signal<ReadonlyMap<string, string>>(new Map());
  readonly sameSize = signal(false);
  /** What is known of the properties of nodes, and which properties were asked for, by type. */
  private readonly values = signal<ReadonlyMap<string, Record<string, unknown>>>(new Map());
  private readonly loaded = new Map<string, Set<string>>();
  /** Why the last wish was refused. */
  readonly refused = signal("");
  /** Places of nodes that were drawn, by their keys. */
  readonly places = new Map<string, [number, number]>();

  /** A picture of the state that ``at`` names. */
  constructor(readonly at: () => Target) {}

  readonly types = computed(() => {
    const counts = new Map<string, number>();
    for (const node of this.content.value.nodes.values()) counts.set(node.type, (counts.get(node.type) ?? 0) + 1);
    return new Map([...counts].sort(([a], [b]) => (a < b ? -1 : 1)));
  });
  readonly hiddenTypes = computed(() => this.content.value.hiddenTypes);
  readonly isEmpty = computed(() => this.content.value.nodes.size === 0);

  /** What is drawn: everything but what is hidden or does not fit the filter. */
  readonly shown = computed<Shown>(() => {
    const { nodes, edges, hidden, hiddenTypes, filter } = this.content.value;
    const fits = filterOf(filter, this.values.value);
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

  /** Look at a node, an edge, or nothing. */
  select(node: string | null, edge: string | null = null): void {
    batch(() => {
      this.selected.value = node;
      this.selectedEdge.value = node === null ? edge : null;
    });
  }

  edge(key: string): GraphEdge | undefined {
    return this.content.value.edges.get(key);
  }

  node(key: string): GraphNode | undefined {
    return this.content.value.nodes.get(key);
  }

  expanded(key: string): boolean {
    return this.content.value.brought.has(key);
  }

  /** Where the next page of neighbours begins: undefined before the first, null after the last. */
  nextPage(key: string, kind: EdgeKind): string | null | undefined {
    return this.content.value.pages.get(pageKey(key, kind));
  }

  caption(node: GraphNode): string {
    const property = this.captions.value.get(node.type);
    const value = property === undefined ? undefined : this.values.value.get(keyOf(node))?.[property];
    return value === undefined || value === null ? node.caption : textOf(value);
  }

  /** Begin anew with these. */
  reset(graph: Pick<Subgraph, "nodes" | "edges">): void {
    this.steps.length = 0;
    this.places.clear();
    this.pinned.clear();
    this.loaded.clear();
    const nodes = new Map(graph.nodes.slice(0, MOST_NODES).map((node) => [keyOf(node), node]));
    const edges = new Map(graph.edges.slice(0, MOST_EDGES).map((edge) => [edgeKey(edge), edge]));
    batch(() => {
      this.content.value = { ...EMPTY, nodes, edges };
      this.values.value = new Map();
      this.captions.value = new Map();
      this.select(null);
      this.canUndo.value = false;
      this.refused.value = "";
    });
  }

  private step(next: Partial<Content>): void {
    // Letters of one filter are one step.
    const goesOn = "filter" in next && next.filter !== "" && this.content.value.filter !== "";
    if (!goesOn) this.steps.push(this.content.value);
    batch(() => {
      this.content.value = { ...this.content.value, ...next };
      this.canUndo.value = true;
      this.deselectGone();
    });
  }

  undo(): void {
    const before = this.steps.pop();
    if (before === undefined) return;
    batch(() => {
      this.content.value = before;
      this.canUndo.value = this.steps.length > 0;
      this.deselectGone();
    });
  }

  private deselectGone(): void {
    const { selected, selectedEdge } = this;
    if (selected.value !== null && !this.shown.value.index.has(selected.value)) selected.value = null;
    if (selectedEdge.value !== null && !this.shown.value.edges.some((edge) => edgeKey(edge) === selectedEdge.value)) selectedEdge.value = null;
  }

  hide(key: string): void {
    this.step({ hidden: new Set(this.content.value.hidden).add(key) });
  }

  toggleType(type: string): void {
    const hiddenTypes = new Set(this.content.value.hiddenTypes);
    if (!hiddenTypes.delete(type)) hiddenTypes.add(type);
    this.step({ hiddenTypes });
  }

  setFilter(filter: string): void {
    if (filter !== this.content.value.filter) this.step({ filter });
  }

  /** Show another property in the captions of a type; null is the server's choice again. */
  async setCaption(type: string, property: string | null): Promise<void> {
    const next = new Map(this.captions.value);
    if (property === null) next.delete(type);
    else {
      await this.load({ [type]: [property] });
      next.set(type, property);
    }
    this.captions.value = next;
  }

  /** Read properties of the nodes of some types, those that are here and those that are yet to come. */
  async load(wanted: Properties): Promise<void> {
    const missing = Object.entries(wanted).flatMap(([type, names]) => {
      const known = this.loaded.get(type) ?? new Set();
      const fresh = names.filter((name) => !known.has(name));
      return fresh.length === 0 ? [] : [[type, fresh] as const];
    });
    if (missing.length === 0) return;
    const types = new Map(missing);
    const nodes = [...this.content.value.nodes.values()].filter((node) => types.has(node.type)).map(({ type, id }) => ({ type, id }));
    const found = await api.subgraph({ nodes, edges: [], properties: Object.fromEntries(missing) }, this.at());
    for (const [type, names] of missing) this.loaded.set(type, new Set([...(this.loaded.get(type) ?? []), ...names]));
    this.learn(found.nodes);
  }

  private learn(nodes: readonly GraphNode[]): void {
    const values = new Map(this.values.value);
    for (const node of nodes) if (node.properties !== undefined) values.set(keyOf(node), { ...values.get(keyOf(node)), ...node.properties });
    this.values.value = values;
  }

  /** Follow the edges of a node, one page further; return how many nodes are new, or -1 if there is no room. */
  async expand(node: NodeName, kind: EdgeKind = null): Promise<number> {
    const key = keyOf(node), after = this.nextPage(key, kind);
    if (after === null) return 0;
    const found = await api.neighbors(node, this.at(), {
      ...(kind === null ? {} : { edges: [kind.edge], direction: kind.direction }),
      ...(after === undefined ? {} : { after }),
      ...(this.loaded.size === 0 ? {} : { properties: Object.fromEntries([...this.loaded].map(([type, names]) => [type, [...names]])) }),
      limit: PAGE,
    });
    this.learn(found.nodes);
    const pages = new Map(this.content.value.pages).set(pageKey(key, kind), found.next ?? null);
    return this.add(key, { nodes: [found.center, ...found.nodes], edges: found.edges }, pages);
  }

  private add(center: string, graph: Pick<Subgraph, "nodes" | "edges">, pages: Content["pages"]): number {
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
    this.step({ nodes: allNodes, edges: allEdges, hidden: shown, brought: new Map(brought).set(center, fresh), pages });
    return added;
  }

  /** Take away what the expansion of a node brought. */
  collapse(center: string): void {
    const { nodes, edges, brought, pages } = this.content.value;
    const gone = brought.get(center);
    if (gone === undefined) return;
    const left = new Map([...nodes].filter(([key]) => !gone.has(key)));
    const between = new Map([...edges].filter(([, edge]) => left.has(keyOf(edge.from)) && left.has(keyOf(edge.to))));
    const others = new Map([...brought].filter(([key]) => key !== center && left.has(key)));
    const unread = new Map([...pages].filter(([key]) => key !== center && !key.startsWith(`${center}\u0000`)));
    this.step({ nodes: left, edges: between, brought: others, pages: unread });
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
      radius: Float32Array.from(degree, (count) => (this.sameSize.value ? 12 : Math.min(22, 9 + 1.9 * Math.sqrt(count)))),
      look: Uint16Array.from(nodes, (node) => lookAt.get(node.type) ?? 0),
      captions: nodes.map((node) => this.caption(node)),
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

/** Keep nodes with all of the words; `name=value` is a property that was loaded, or the type or id. */
function filterOf(text: string, values: ReadonlyMap<string, Record<string, unknown>>): (node: GraphNode) => boolean {
  const words = text.toLowerCase().split(/\s+/).filter((word) => word !== "");
  if (words.length === 0) return () => true;
  return (node) => {
    const all = `${node.type} ${node.id} ${node.caption}`.toLowerCase();
    const known: Record<string, unknown> = { ...values.get(keyOf(node)), type: node.type, id: node.id };
    return words.every((word) => {
      const [name = "", value] = word.split("=", 2);
      if (value === undefined) return all.includes(word);
      const property = Object.keys(known).find((each) => each.toLowerCase() === name);
      return property !== undefined && textOf(known[property]).toLowerCase() === value;
    });
  };
}
