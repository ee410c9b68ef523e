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
  const marks = [key.includes(property.name) ? "key" : property.unique ? "unique" : "", property.embed !== undefined ? "embed" : property.index !== undefined ? "index" : ""];
  const type = cut(`${property.list ? `[${word}]` : word}${property.nullable ? "?" : ""}`, 14), words = marks.filter((mark) => mark !== "").join(" ");
  // What is left of the line when the type and the marks stand in it.
  const room = Math.floor((WIDE - 36 - 7.3 * type.length - 6 * words.length) / 7.3);
  return { name: cut(property.name, Math.max(room, 6)), marks: words, type };
};
const cut = (text: string, most: number): string => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/** Return where everything stands: from left to right, or from top to bottom where the page is narrow. */
export async function diagramOf(catalog: Catalog, narrow: boolean): Promise<Diagram> {
  const boxes = [
    ...catalog.nodes.map((type) => ({ name: type.name, dashed: false, count: 0 as number | null, lines: type.properties.slice(0, MOST_LINES).map((each) => short(each, type.key)) })),
    ...catalog.interfaces.map((type) => ({ name: type.name, dashed: true, count: null, lines: type.properties.slice(0, MOST_LINES).map((each) => short(each, [])) })),
  ].map((box) => ({ ...box, x: 0, y: 0, height: 40 + Math.max(1, box.lines.length) * 18 }));
  const arrows = arrowsOf(catalog);
  try {
    const { Graph, layout } = await import("@dagrejs/dagre");
    const graph = new Graph();
    graph.setGraph({ rankdir: narrow ? "TB" : "LR", nodesep: 36, ranksep: 60, marginx: 10, marginy: 10 });
    const loops = new Map(arrows.filter((arrow) => arrow.from === arrow.to).map((arrow) => [arrow.from, LOOP + 15 * arrow.words.length]));
    const room = (name: string) => 2 * (loops.get(name) ?? 0);
    for (const box of boxes) graph.setNode(box.name, { width: WIDE + (narrow ? room(box.name) : 0), height: box.height + (narrow ? 0 : room(box.name)) });
    for (const arrow of arrows)
      if (arrow.from !== arrow.to)
      graph.setEdge(arrow.from, arrow.to, { width: Math.max(10, ...arrow.words.map((word) => word.text.length * 7.2)), height: Math.max(1, arrow.words.length) * 15 + 6, labelpos: "c" });
    layout(graph);
    const size = graph.graph() as { width: number; height: number };
    for (const box of boxes) Object.assign(box, pick(graph.node(box.name) as Place));
    const edges = arrows.map((arrow) => {
      const [from, to] = [arrow.from, arrow.to].map((name) => boxes.find((box) => box.name === name)!) as [Box, Box];
      if (from === to) return loopOf(from, arrow, narrow);
      const found = graph.edge(arrow.from, arrow.to) as unknown as { points: Place[]; x?: number; y?: number };
      const points = found.points.map((point, i) => (i === 0 ? onto(from, point) : i === found.points.length - 1 ? onto(to, point) : point));
      return { path: curve(points), x: found.x ?? 0, y: found.y ?? 0, dashed: arrow.dashed, words: arrow.words };
    });
    return { width: size.width, height: size.height, boxes, edges };
  } catch {
    return grid(boxes, arrows);
  }
}

type Box = Diagram["boxes"][number];

/** The point of a box that is nearest: dagre keeps edges away from where its loop is. */
const onto = (box: Box, { x, y }: Place): Place => ({
  x: Math.min(box.x + WIDE / 2, Math.max(box.x - WIDE / 2, x)),
  y: Math.min(box.y + box.height / 2, Math.max(box.y - box.height / 2, y)),
});

function loopOf(box: Box, arrow: Arrow, narrow = false): Diagram["edges"][number] {
  if (narrow) {
    const x = box.x + WIDE / 2, far = x + LOOP + 15 * arrow.words.length, high = Math.min(18, box.height / 2 - 6);
    const path = `M${x} ${box.y + high}C${far} ${box.y + high + 14} ${far} ${box.y - high - 14} ${x} ${box.y - high}`;
    return { path, x: x + 0.75 * (far - x), y: box.y, dashed: arrow.dashed, words: arrow.words };
  }
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
