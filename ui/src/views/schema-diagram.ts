// Where the boxes and arrows of a schema stand. dagre throws on parallel edges, so all edges between two types are
// one arrow with a list of words.
import type { Catalog, Property } from "../api";

export const WIDE = 250;
/** Room below a box for edges that lead back to it. */
const LOOP = 44;
const MOST_LINES = 12;

export interface Diagram {
  width: number;
  height: number;
  boxes: { name: string; x: number; y: number; height: number; dashed: boolean; count: number | null; lines: Line[] }[];
  edges: { path: string; x: number; y: number; dashed: boolean; words: { name: string; text: string }[] }[];
}
export interface Line {
  name: string;
  marks: string;
  type: string;
}
interface Place {
  x: number;
  y: number;
}
interface Arrow {
  from: string;
  to: string;
  dashed: boolean;
  words: { name: string; text: string }[];
}

const short = (property: Property, key: readonly string[]): Line => {
  const word = property.vector_dim === undefined ? property.type : `${property.type}(${property.vector_dim})`;
  const marks = [key.includes(property.name) ? "key" : property.unique ? "unique" : "", property.index === undefined ? "" : "index"];
  return { name: cut(property.name, 14), marks: marks.filter((mark) => mark !== "").join(" "), type: cut(`${property.list ? `[${word}]` : word}${property.nullable ? "?" : ""}`, 14) };
};
const cut = (text: string, most: number): string => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

export async function diagramOf(catalog: Catalog): Promise<Diagram> {
  const boxes = [
    ...catalog.nodes.map((type) => ({ name: type.name, dashed: false, count: 0 as number | null, lines: type.properties.slice(0, MOST_LINES).map((each) => short(each, type.key)) })),
    ...catalog.interfaces.map((type) => ({ name: type.name, dashed: true, count: null, lines: type.properties.slice(0, MOST_LINES).map((each) => short(each, [])) })),
  ].map((box) => ({ ...box, x: 0, y: 0, height: 40 + Math.max(1, box.lines.length) * 18 }));
  const arrows = arrowsOf(catalog);
  try {
    const { Graph, layout } = await import("@dagrejs/dagre");
    const graph = new Graph();
    graph.setGraph({ rankdir: "LR", nodesep: 36, ranksep: 60, marginx: 10, marginy: 10 });
    const loops = new Map(arrows.filter((arrow) => arrow.from === arrow.to).map((arrow) => [arrow.from, LOOP + 15 * arrow.words.length]));
    for (const box of boxes) graph.setNode(box.name, { width: WIDE, height: box.height + 2 * (loops.get(box.name) ?? 0) });
    for (const arrow of arrows)
      if (arrow.from !== arrow.to)
      graph.setEdge(arrow.from, arrow.to, { width: Math.max(10, ...arrow.words.map((word) => word.text.length * 7.2)), height: Math.max(1, arrow.words.length) * 15 + 6, labelpos: "c" });
    layout(graph);
    const size = graph.graph() as { width: number; height: number };
    for (const box of boxes) Object.assign(box, pick(graph.node(box.name) as Place));
    const edges = arrows.map((arrow) => {
      if (arrow.from === arrow.to) return loopOf(boxes.find((box) => box.name === arrow.from)!, arrow);
      const found = graph.edge(arrow.from, arrow.to) as unknown as { points: Place[]; x?: number; y?: number };
      return { path: curve(found.points), x: found.x ?? 0, y: found.y ?? 0, dashed: arrow.dashed, words: arrow.words };
    });
    return { width: size.width, height: size.height, boxes, edges };
  } catch {
    return grid(boxes, arrows);
  }
}

function loopOf(box: Diagram["boxes"][number], arrow: Arrow): Diagram["edges"][number] {
  const y = box.y + box.height / 2, deep = y + LOOP + 15 * arrow.words.length;
  const path = `M${box.x + 60} ${y}C${box.x + 70} ${deep} ${box.x - 70} ${deep} ${box.x - 60} ${y}`;
  return { path, x: box.x, y: y + 0.75 * (deep - y), dashed: arrow.dashed, words: arrow.words };
}

const pick = ({ x, y }: Place): Place => ({ x, y });

function arrowsOf(catalog: Catalog): Arrow[] {
  const found = new Map<string, Arrow>();
  const add = (from: string, to: string, word: { name: string; text: string } | null, dashed: boolean) => {
    const key = `${from}\u0000${to}`;
    const arrow = found.get(key) ?? { from, to, dashed, words: [] };
    if (word !== null) arrow.words.push(word);
    found.set(key, arrow);
  };
  for (const edge of catalog.edges) {
    const card = edge.card.min === 0 && edge.card.max === undefined ? "" : ` ${edge.card.min}..${edge.card.max ?? "*"}`;
    add(edge.from, edge.to, { name: edge.name, text: edge.word + card }, false);
  }
  for (const type of catalog.nodes) for (const name of type.implements) if (catalog.interfaces.some((each) => each.name === name)) add(type.name, name, null, true);
  return [...found.values()];
}

function curve(points: Place[]): string {
  const [first, ...rest] = points;
  if (first === undefined) return "";
  let path = `M${first.x} ${first.y}`;
  for (let i = 0; i < rest.length - 1; i++) {
    const here = rest[i]!, next = rest[i + 1]!;
    const end = i === rest.length - 2 ? next : { x: (here.x + next.x) / 2, y: (here.y + next.y) / 2 };
    path += `Q${here.x} ${here.y} ${end.x} ${end.y}`;
  }
  return rest.length === 1 ? `${path}L${rest[0]!.x} ${rest[0]!.y}` : path;
}

/** Rows of boxes, where no better order was found. */
function grid(boxes: Diagram["boxes"], arrows: Arrow[]): Diagram {
  const columns = Math.ceil(Math.sqrt(boxes.length));
  const high = Math.max(...boxes.map((box) => box.height)) + 60, wide = WIDE + 90;
  boxes.forEach((box, i) => Object.assign(box, { x: (i % columns) * wide + WIDE / 2 + 10, y: Math.floor(i / columns) * high + high / 2 }));
  const at = new Map(boxes.map((box) => [box.name, box]));
  const edges = arrows.flatMap((arrow) => {
    const a = at.get(arrow.from), b = at.get(arrow.to);
    if (a === undefined || b === undefined) return [];
    if (a === b) return [loopOf(a, arrow)];
    return [{ path: `M${a.x} ${a.y}L${b.x} ${b.y}`, x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, dashed: arrow.dashed, words: arrow.words }];
  });
  return { width: columns * wide, height: Math.ceil(boxes.length / columns) * high, boxes, edges };
}
