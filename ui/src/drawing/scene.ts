// A picture as numbers: what the page, the painter and the layout exchange.

export interface Scene {
  /** Positions in a plane of their own; the view says where that lies on the screen. */
  x: Float32Array;
  y: Float32Array;
  radius: Float32Array;
  /** Per node: which of ``looks`` it has. */
  look: Uint16Array;
  captions: string[];
  degree: Uint32Array;
  /** Per edge: its ends, how far it bends, and which of ``words`` it has. */
  from: Uint32Array;
  to: Uint32Array;
  bend: Float32Array;
  word: Uint16Array;
  words: string[];
  looks: Look[];
}
export interface Look {
  colour: number;
  shape: "circle" | "square" | "diamond";
  letter: string;
}
/** screen = k · place + (x, y) */
export interface ViewBox {
  k: number;
  x: number;
  y: number;
}
export interface Colours {
  canvas: string;
  text: string;
  soft: string;
  wire: string;
  strong: string;
  accent: string;
  weak: string;
  sans: string;
  mono: string;
  fills: string[];
  outlines: string[];
  letters: string[];
}
export interface Paint {
  view: ViewBox;
  /** The size of the picture, and how far its corner lies left of and above that of the scene. */
  width: number;
  height: number;
  margin: [number, number];
  ratio: number;
  colours: Colours;
  selected: number;
  selectedEdge: number;
  /** Nodes of rows that are chosen elsewhere. */
  marked: number[];
  /** Pixels at the right that a panel covers. */
  covered: number;
}

export const MOST_NODES = 5000;
export const MOST_EDGES = 20_000;
/** Above so many nodes in sight edges are straight and nodes have no letters. */
export const PLAIN_ABOVE = 1500;

/** Return the view in which the whole scene is seen. */
export function fitted(scene: Scene, width: number, height: number, covered = 0): ViewBox {
  let left = Infinity, right = -Infinity, top = Infinity, bottom = -Infinity;
  for (let i = 0; i < scene.x.length; i++) {
    const x = scene.x[i]!, y = scene.y[i]!;
    left = Math.min(left, x);
    right = Math.max(right, x);
    top = Math.min(top, y);
    bottom = Math.max(bottom, y);
  }
  const free = Math.max(width - covered, 80);
  if (left > right) return { k: 1, x: free / 2, y: height / 2 };
  const side = Math.min(90, free * 0.09), above = 64, below = 96;
  const wide = Math.max(right - left, 1), high = Math.max(bottom - top, 1);
  const k = Math.max(0.02, Math.min((free - 2 * side) / wide, (height - above - below) / high, 1.6));
  return { k, x: free / 2 - (k * (left + right)) / 2, y: (height + above - below) / 2 - (k * (top + bottom)) / 2 };
}

/** How large things are drawn: circles shrink less than distances do. */
export const sizeAt = (k: number): number => Math.min(1.25, Math.max(0.3, Math.sqrt(k)));

/** Return the node under a point of the screen, the topmost one, or -1. */
export function pickNode(scene: Scene, view: ViewBox, px: number, py: number): number {
  const size = sizeAt(view.k);
  let best = -1, nearest = Infinity;
  for (let i = 0; i < scene.x.length; i++) {
    const dx = scene.x[i]! * view.k + view.x - px, dy = scene.y[i]! * view.k + view.y - py;
    const reach = Math.max(scene.radius[i]! * size, 7) + 3;
    const distance = dx * dx + dy * dy;
    if (distance <= reach * reach && distance <= nearest) {
      best = i;
      nearest = distance;
    }
  }
  return best;
}

const REACH = 5;

/** Return the edge under a point of the screen, the nearest one, or -1; loops are found where they leave their node. */
export function pickEdge(scene: Scene, view: ViewBox, px: number, py: number): number {
  let best = -1, nearest = REACH;
  for (let i = 0; i < scene.from.length; i++) {
    const a = scene.from[i]!, b = scene.to[i]!;
    const ax = scene.x[a]! * view.k + view.x, ay = scene.y[a]! * view.k + view.y;
    if (a === b) {
      const far = Math.abs(Math.hypot(px - ax, py - ay + 2 * scene.radius[a]! * sizeAt(view.k)) - scene.radius[a]! * sizeAt(view.k));
      if (far < nearest) [best, nearest] = [i, far];
      continue;
    }
    const bx = scene.x[b]! * view.k + view.x, by = scene.y[b]! * view.k + view.y;
    const slack = Math.abs(scene.bend[i]!) * (Math.abs(bx - ax) + Math.abs(by - ay)) + REACH;
    if (px < Math.min(ax, bx) - slack || px > Math.max(ax, bx) + slack || py < Math.min(ay, by) - slack || py > Math.max(ay, by) + slack) continue;
    const mx = (ax + bx) / 2 - (by - ay) * scene.bend[i]!, my = (ay + by) / 2 + (bx - ax) * scene.bend[i]!;
    const far = farFromCurve(ax, ay, mx, my, bx, by, px, py);
    if (far < nearest) [best, nearest] = [i, far];
  }
  return best;
}

/** How far a point lies from a curve with one control point, taken as eight straight pieces. */
function farFromCurve(ax: number, ay: number, mx: number, my: number, bx: number, by: number, px: number, py: number): number {
  let least = Infinity, x = ax, y = ay;
  for (let step = 1; step <= 8; step++) {
    const t = step / 8, u = 1 - t;
    const nx = u * u * ax + 2 * u * t * mx + t * t * bx, ny = u * u * ay + 2 * u * t * my + t * t * by;
    const length = (nx - x) ** 2 + (ny - y) ** 2 || 1;
    const along = Math.min(1, Math.max(0, ((px - x) * (nx - x) + (py - y) * (ny - y)) / length));
    least = Math.min(least, Math.hypot(px - x - along * (nx - x), py - y - along * (ny - y)));
    [x, y] = [nx, ny];
  }
  return least;
}

/** How far parallel edges bend, so that each is seen: 0.1, 0.22, … of their length, to both sides. */
export function bends(from: Uint32Array, to: Uint32Array): Float32Array {
  const seen = new Map<string, number>();
  const bend = new Float32Array(from.length);
  for (let i = 0; i < from.length; i++) {
    const key = from[i]! < to[i]! ? `${from[i]}-${to[i]}` : `${to[i]}-${from[i]}`;
    const before = seen.get(key) ?? 0;
    seen.set(key, before + 1);
    const side = from[i]! <= to[i]! ? 1 : -1;
    bend[i] = (0.08 + 0.13 * Math.floor(before / 2)) * (before % 2 === 0 ? 1 : -1) * side;
  }
  return bend;
}
