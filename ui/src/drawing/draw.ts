// Draws a scene on a canvas. The painter calls it in a worker; the page does for a picture to download, and
// where a worker cannot draw.
import { PLAIN_ABOVE, sizeAt, type Paint, type Scene } from "./scene";

type Context = CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D;
type Box = [left: number, top: number, right: number, bottom: number];

export function draw(context: Context, scene: Scene, paint: Paint): void {
  const { view, ratio, margin } = paint;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = paint.colours.canvas;
  context.fillRect(0, 0, paint.width, paint.height);
  const count = scene.x.length;
  const x = new Float32Array(count), y = new Float32Array(count);
  const seen: number[] = [];
  for (let i = 0; i < count; i++) {
    x[i] = scene.x[i]! * view.k + view.x + margin[0];
    y[i] = scene.y[i]! * view.k + view.y + margin[1];
    if (x[i]! > -60 && y[i]! > -60 && x[i]! < paint.width + 60 && y[i]! < paint.height + 60) seen.push(i);
  }
  const picture = new Picture(context, scene, paint, x, y, seen);
  picture.edges();
  picture.nodes();
  if (!picture.plain) picture.captions();
}

class Picture {
  readonly plain: boolean;
  private readonly size: number;
  private readonly near = new Set<number>();
  private readonly labels: { word: string; x: number; y: number }[] = [];

  constructor(
    private readonly c: Context,
    private readonly scene: Scene,
    private readonly paint: Paint,
    private readonly x: Float32Array,
    private readonly y: Float32Array,
    private readonly seen: number[],
  ) {
    this.plain = seen.length > PLAIN_ABOVE;
    this.size = sizeAt(paint.view.k);
    const chosen = paint.selected;
    if (chosen >= 0)
      for (let i = 0; i < scene.from.length; i++) {
        if (scene.from[i] === chosen) this.near.add(scene.to[i]!);
        else if (scene.to[i] === chosen) this.near.add(scene.from[i]!);
      }
  }

  private radius(i: number): number {
    return this.scene.radius[i]! * this.size;
  }

  edges(): void {
    const { c, scene, paint } = this;
    const chosen = paint.selected;
    c.lineWidth = this.plain ? 0.6 : Math.max(0.7, 1.1 * this.size);
    c.strokeStyle = c.fillStyle = paint.colours.wire;
    c.globalAlpha = chosen < 0 ? 1 : 0.7;
    if (this.plain) {
      c.beginPath();
      for (let i = 0; i < scene.from.length; i++) {
        c.moveTo(this.x[scene.from[i]!]!, this.y[scene.from[i]!]!);
        c.lineTo(this.x[scene.to[i]!]!, this.y[scene.to[i]!]!);
      }
      c.stroke();
    } else
      for (let i = 0; i < scene.from.length; i++)
        if (scene.from[i] !== chosen && scene.to[i] !== chosen) this.edge(i);
    c.globalAlpha = 1;
    if (paint.selectedEdge >= 0 && paint.selectedEdge < scene.from.length) {
      c.strokeStyle = c.fillStyle = paint.colours.accent;
      c.lineWidth = 2.5;
      const [mx, my] = this.edge(paint.selectedEdge);
      this.labels.push({ word: scene.words[scene.word[paint.selectedEdge]!] ?? "", x: mx, y: my });
    }
    if (chosen < 0) return;
    c.strokeStyle = c.fillStyle = paint.colours.strong;
    c.lineWidth = 1.7;
    for (let i = 0; i < scene.from.length; i++) {
      if (scene.from[i] !== chosen && scene.to[i] !== chosen) continue;
      const [mx, my] = this.edge(i);
      this.labels.push({ word: scene.words[scene.word[i]!] ?? "", x: mx, y: my });
    }
  }

  /** Draw an edge with its arrow; return where its word stands. */
  private edge(i: number): [number, number] {
    const { c, scene } = this;
    const a = scene.from[i]!, b = scene.to[i]!;
    if (a === b) return this.loop(a, i);
    const ax = this.x[a]!, ay = this.y[a]!, bx = this.x[b]!, by = this.y[b]!;
    const distance = Math.hypot(bx - ax, by - ay) || 1;
    const bend = scene.bend[i]! * distance;
    const mx = (ax + bx) / 2 - ((by - ay) / distance) * bend, my = (ay + by) / 2 + ((bx - ax) / distance) * bend;
    const length = Math.hypot(bx - mx, by - my) || 1;
    const ux = (bx - mx) / length, uy = (by - my) / length;
    const rim = this.radius(b) + 2.5;
    const tx = bx - ux * rim, ty = by - uy * rim;
    const head = Math.max(4, 7 * this.size);
    c.beginPath();
    c.moveTo(ax, ay);
    c.quadraticCurveTo(mx, my, tx - ux * head * 0.7, ty - uy * head * 0.7);
    c.stroke();
    c.beginPath();
    c.moveTo(tx, ty);
    c.lineTo(tx - ux * head - uy * head * 0.48, ty - uy * head + ux * head * 0.48);
    c.lineTo(tx - ux * head + uy * head * 0.48, ty - uy * head - ux * head * 0.48);
    c.fill();
    return [0.25 * ax + 0.5 * mx + 0.25 * bx, 0.25 * ay + 0.5 * my + 0.25 * by];
  }

  private loop(a: number, i: number): [number, number] {
    const { c } = this;
    const x = this.x[a]!, y = this.y[a]!, r = this.radius(a);
    const lift = r * (2 + 9 * Math.abs(this.scene.bend[i]! - 0.08));
    c.beginPath();
    c.moveTo(x - r * 0.55, y - r * 0.84);
    c.bezierCurveTo(x - r * 1.7, y - r - lift, x + r * 1.7, y - r - lift, x + r * 0.62, y - r * 0.98);
    c.stroke();
    c.beginPath();
    c.moveTo(x + r * 0.52, y - r * 0.86);
    c.lineTo(x + r * 0.52 + 0.5, y - r * 0.86 - 8);
    c.lineTo(x + r * 0.52 + 6.5, y - r * 0.86 - 5.5);
    c.fill();
    return [x, y - r - lift * 0.72];
  }

  nodes(): void {
    const { c, scene, paint } = this;
    const { colours } = paint;
    const marked = new Set(paint.marked);
    c.textAlign = "center";
    c.textBaseline = "middle";
    for (const i of this.seen) {
      const look = scene.looks[scene.look[i]!]!;
      const r = Math.max(this.radius(i), 1.5), x = this.x[i]!, y = this.y[i]!;
      if (i === paint.selected || marked.has(i)) {
        c.beginPath();
        c.arc(x, y, r + 5, 0, 7);
        c.fillStyle = colours.weak;
        c.fill();
        c.lineWidth = 2;
        c.strokeStyle = colours.accent;
        c.stroke();
      }
      outline(c, look.shape, x, y, r);
      c.fillStyle = colours.fills[look.colour - 1]!;
      c.fill();
      c.lineWidth = this.plain ? 0.8 : 1.5;
      c.strokeStyle = colours.outlines[look.colour - 1]!;
      c.stroke();
      if (this.plain || r < 5) continue;
      c.fillStyle = colours.letters[look.colour - 1]!;
      c.font = `650 ${Math.round(r * 0.95)}px ${colours.sans}`;
      c.fillText(look.letter, x, y + 0.5);
    }
  }

  /** The selected node first, then its neighbours, then by degree; what would cover something is left out. */
  captions(): void {
    const { c, scene, paint } = this;
    const { colours, selected } = paint;
    const taken = new Taken(paint.width);
    for (const i of this.seen) {
      const r = this.radius(i);
      taken.add([this.x[i]! - r, this.y[i]! - r, this.x[i]! + r, this.y[i]! + r]);
    }
    const rank = (i: number) => (i === selected ? 1e6 : this.near.has(i) ? 1e5 : 0) + scene.degree[i]!;
    const order = this.seen.map((i) => [rank(i), i] as const).sort((a, b) => b[0] - a[0]);
    // What is seen ends here; a caption lies inside it, or outside with its node.
    const left = paint.margin[0] + 4, edge = paint.width - paint.margin[0], right = edge - paint.covered - 4;
    const crossed = this.sides();
    const isCut = (box: Box) => (box[0] < left && box[2] > left) || (box[2] > right && box[0] < edge);
    let shown: { word: string; x: number; y: number }[] | null = this.labels.length === 0 ? [] : null;
    c.lineJoin = "round";
    c.textAlign = "center";
    c.textBaseline = "top";
    for (const [, i] of order.slice(0, 600)) {
      const chosen = i === selected;
      if (!chosen && shown === null) shown = this.edgeWords(taken);
      const text = shortened(scene.captions[i]!);
      if (text === "") continue;
      c.font = `${chosen ? "650 13px" : "500 11.5px"} ${colours.sans}`;
      const half = c.measureText(text).width / 2, r = this.radius(i), gap = chosen ? 9 : 4;
      const x = this.x[i]!, y = this.y[i]!;
      const places: [number, number][] = [
        [x, y + r + gap],
        [x + r + gap + half, y - 6],
        [x - r - gap - half, y - 6],
        [x, y - r - gap - 13],
      ];
      const box = ([px, py]: [number, number]): Box => [px - half - 2, py - 1, px + half + 2, py + 14];
      const free = places.filter((at) => {
        const wanted = box(at);
        return !isCut(wanted) && !taken.hits(wanted);
      });
      // Rather where none of its edges leaves the node: a caption hides the arrow there.
      const place = free.find((at) => !(crossed[i]! & (1 << places.indexOf(at)))) ?? free[0] ?? (chosen ? places[0] : undefined);
      if (place === undefined) continue;
      taken.add(box(place));
      this.write(text, place[0], place[1], chosen || selected < 0 || this.near.has(i) ? colours.text : colours.soft);
    }
    c.textBaseline = "middle";
    for (const { word, x, y } of shown ?? []) {
      c.font = `600 11px ${colours.mono}`;
      this.write(word, x, y, colours.strong);
    }
  }

  /** Below, right, left and above, as bits: the sides of each node at which it has edges. */
  private sides(): Uint8Array {
    const { scene } = this;
    const found = new Uint8Array(scene.x.length);
    for (let i = 0; i < scene.from.length; i++) {
      const a = scene.from[i]!, b = scene.to[i]!;
      const dx = this.x[b]! - this.x[a]!, dy = this.y[b]! - this.y[a]!;
      const steep = 0.7 * Math.hypot(dx, dy);
      const [out, back] = dy > steep ? [1, 8] : dy < -steep ? [8, 1] : dx > 0 ? [2, 4] : [4, 2];
      found[a]! |= out!;
      found[b]! |= back!;
    }
    return found;
  }

  private edgeWords(taken: Taken): { word: string; x: number; y: number }[] {
    const { c } = this;
    c.font = `600 11px ${this.paint.colours.mono}`;
    return this.labels.slice(0, 80).filter(({ word, x, y }) => {
      const half = c.measureText(word).width / 2;
      const box: Box = [x - half, y - 7, x + half, y + 7];
      if (taken.hits(box)) return false;
      taken.add(box);
      return true;
    });
  }

  private write(text: string, x: number, y: number, colour: string): void {
    const { c } = this;
    c.lineWidth = 4;
    c.strokeStyle = this.paint.colours.canvas;
    c.strokeText(text, x, y);
    c.fillStyle = colour;
    c.fillText(text, x, y);
  }
}

function outline(c: Context, shape: string, x: number, y: number, r: number): void {
  c.beginPath();
  if (shape === "circle") c.arc(x, y, r, 0, 7);
  else if (shape === "square") c.rect(x - r * 0.88, y - r * 0.88, r * 1.76, r * 1.76);
  else {
    c.moveTo(x, y - r * 1.2);
    c.lineTo(x + r * 1.2, y);
    c.lineTo(x, y + r * 1.2);
    c.lineTo(x - r * 1.2, y);
    c.closePath();
  }
}

/** One line, without marks that turn the direction of what follows. */
function shortened(caption: string): string {
  const line = caption.slice(0, 200).replace(/[\u0000-\u001f\u200e\u200f\u202a-\u202e\u2066-\u2069]+/g, " ").trim();
  const letters = [...line];
  return letters.length > 28 ? `${letters.slice(0, 27).join("").trimEnd()}…` : line;
}

/** Places that are taken, by cells of a grid, so that a look at one is a look at few. */
class Taken {
  private readonly cells = new Map<number, Box[]>();
  private readonly columns: number;

  constructor(width: number) {
    this.columns = Math.ceil(width / 64) + 4;
  }

  private *over(box: Box): Iterable<number> {
    for (let row = Math.floor(box[1] / 64); row <= Math.floor(box[3] / 64); row++)
      for (let column = Math.floor(box[0] / 64); column <= Math.floor(box[2] / 64); column++)
        yield row * this.columns + column;
  }

  add(box: Box): void {
    for (const cell of this.over(box)) {
      const there = this.cells.get(cell);
      if (there) there.push(box);
      else this.cells.set(cell, [box]);
    }
  }

  hits(box: Box): boolean {
    for (const cell of this.over(box))
      for (const other of this.cells.get(cell) ?? [])
        if (box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3]) return true;
    return false;
  }
}
