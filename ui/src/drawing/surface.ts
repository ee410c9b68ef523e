// The element that shows a picture: it holds the view, moves the last painted picture with it, and asks for a
// new one whenever none is under way.
import { draw } from "./draw";
import type { FromLayout, ToLayout } from "./layout.worker";
import type { FromPainter, ToPainter } from "./paint.worker";
import { fitted, pickEdge, pickNode, type Colours, type Paint, type Scene, type ViewBox } from "./scene";
import { newLayout, newPainter } from "./workers";

/** The picture is so much larger than what is seen of it, so that it can be moved before the next one. */
const LARGER = 1.5;

export interface Wishes {
  selected: number;
  selectedEdge: number;
  marked: number[];
  covered: number;
}

export class Surface {
  view: ViewBox = { k: 1, x: 0, y: 0 };
  scene: Scene | null = null;
  settled = true;
  /** Called when places have changed, with whether they are final. */
  onPlaces: (done: boolean) => void = () => undefined;

  private readonly painter: Worker | null;
  private readonly layout: Worker;
  private readonly bitmap: ImageBitmapRenderingContext | null;
  private painted: ViewBox = { k: 1, x: 0, y: 0 };
  private busy = false;
  private stale = false;
  private follow = true;
  private run = 0;
  private wishes: Wishes = { selected: -1, selectedEdge: -1, marked: [], covered: 0 };
  private readonly observer: ResizeObserver;

  constructor(
    private readonly box: HTMLElement,
    private readonly canvas: HTMLCanvasElement,
    private colours: Colours,
  ) {
    const off = "OffscreenCanvas" in globalThis && "transferToImageBitmap" in OffscreenCanvas.prototype;
    this.bitmap = off ? canvas.getContext("bitmaprenderer") : null;
    this.painter = this.bitmap === null ? null : newPainter();
    this.painter?.addEventListener("message", (event: MessageEvent<FromPainter>) => this.take(event.data));
    this.layout = newLayout();
    this.layout.addEventListener("message", (event: MessageEvent<FromLayout>) => this.place(event.data));
    this.observer = new ResizeObserver(() => {
      if (this.follow) this.fit();
      else this.repaint();
    });
    this.observer.observe(box);
  }

  close(): void {
    this.observer.disconnect();
    this.painter?.terminate();
    this.layout.terminate();
  }

  get width(): number {
    return this.box.clientWidth;
  }

  get height(): number {
    return this.box.clientHeight;
  }

  /** Show a scene; nodes without a place (NaN) get one near the others. */
  show(scene: Scene, way: ToLayout["way"], pinned: number[], moving: boolean, warm: boolean): void {
    this.scene = scene;
    this.settled = scene.x.length === 0;
    if (!warm) this.follow = true;
    const request: ToLayout = {
      run: ++this.run,
      way,
      x: scene.x.slice(),
      y: scene.y.slice(),
      radius: scene.radius,
      pinned,
      from: scene.from,
      to: scene.to,
      warm,
      moving,
    };
    if (warm || moving) spread(scene);
    this.painter?.postMessage({ kind: "scene", scene } satisfies ToPainter);
    if (warm || moving || scene.x.length === 0) this.seen();
    if (scene.x.length > 0) this.layout.postMessage(request);
    else this.onPlaces(true);
  }

  /** Show what has changed: all of it, as long as the reader has not moved the view. */
  private seen(): void {
    if (this.follow) this.fit();
    else this.repaint();
  }

  private place(places: FromLayout): void {
    if (places.run !== this.run || this.scene === null || this.scene.x.length !== places.x.length) return;
    this.scene.x = places.x;
    this.scene.y = places.y;
    this.settled = places.done;
    this.painter?.postMessage({ kind: "places", x: places.x, y: places.y } satisfies ToPainter);
    this.seen();
    this.onPlaces(places.done);
  }

  wish(wishes: Wishes): void {
    const refit = this.follow && wishes.covered !== this.wishes.covered;
    this.wishes = wishes;
    if (refit) this.fit();
    else this.repaint();
  }

  recolour(colours: Colours): void {
    this.colours = colours;
    this.repaint();
  }

  fit(): void {
    if (this.scene === null || this.width === 0) return;
    this.follow = true;
    this.view = fitted(this.scene, this.width, this.height, this.wishes.covered);
    this.repaint();
  }

  pan(dx: number, dy: number): void {
    this.follow = false;
    this.view = { ...this.view, x: this.view.x + dx, y: this.view.y + dy };
    this.repaint();
  }

  zoom(factor: number, px = this.width / 2, py = this.height / 2): void {
    this.follow = false;
    const k = Math.min(6, Math.max(0.02, this.view.k * factor));
    const change = k / this.view.k;
    this.view = { k, x: px - (px - this.view.x) * change, y: py - (py - this.view.y) * change };
    this.repaint();
  }

  /** Bring a node into sight. */
  reveal(node: number): void {
    if (this.scene === null) return;
    const x = this.scene.x[node]! * this.view.k + this.view.x, y = this.scene.y[node]! * this.view.k + this.view.y;
    const right = this.width - this.wishes.covered;
    if (x < 30 || y < 30 || x > right - 30 || y > this.height - 30) this.pan(right / 2 - x, this.height / 2 - y);
  }

  pick(px: number, py: number): number {
    return this.scene === null ? -1 : pickNode(this.scene, this.view, px, py);
  }

  pickEdge(px: number, py: number): number {
    return this.scene === null ? -1 : pickEdge(this.scene, this.view, px, py);
  }

  move(node: number, dx: number, dy: number): void {
    if (this.scene === null) return;
    this.follow = false;
    this.scene.x[node]! += dx / this.view.k;
    this.scene.y[node]! += dy / this.view.k;
    this.painter?.postMessage({ kind: "places", x: this.scene.x.slice(), y: this.scene.y.slice() } satisfies ToPainter);
    this.repaint();
  }

  repaint(): void {
    this.transform();
    if (this.busy) this.stale = true;
    else this.request();
  }

  private request(): void {
    if (this.scene === null || this.width === 0) return;
    this.stale = false;
    const paint = this.paint(LARGER);
    this.canvas.style.width = `${paint.width}px`;
    this.canvas.style.height = `${paint.height}px`;
    this.canvas.style.left = `${-paint.margin[0]}px`;
    this.canvas.style.top = `${-paint.margin[1]}px`;
    this.canvas.style.transformOrigin = `${paint.margin[0]}px ${paint.margin[1]}px`;
    if (this.painter !== null) {
      this.busy = true;
      this.painter.postMessage({ kind: "paint", paint } satisfies ToPainter);
      return;
    }
    const context = this.canvas.getContext("2d");
    if (context === null) return;
    this.canvas.width = Math.round(paint.width * paint.ratio);
    this.canvas.height = Math.round(paint.height * paint.ratio);
    draw(context, this.scene, paint);
    this.painted = paint.view;
    this.transform();
  }

  private paint(larger: number): Paint {
    const width = Math.ceil(this.width * larger), height = Math.ceil(this.height * larger);
    return {
      view: { ...this.view },
      width,
      height,
      margin: [Math.round((width - this.width) / 2), Math.round((height - this.height) / 2)],
      ratio: Math.min(devicePixelRatio || 1, 2),
      colours: this.colours,
      ...this.wishes,
    };
  }

  private take({ bitmap, view }: FromPainter): void {
    // In one task: the new picture and the transform that fits it.
    this.bitmap?.transferFromImageBitmap(bitmap);
    this.painted = view;
    this.transform();
    this.busy = false;
    if (this.stale) this.request();
  }

  private transform(): void {
    const scale = this.view.k / this.painted.k;
    const x = this.view.x - scale * this.painted.x, y = this.view.y - scale * this.painted.y;
    this.canvas.style.transform = `translate(${x}px, ${y}px) scale(${scale})`;
  }

  /** A picture of what is seen, to be kept. */
  download(): Promise<Blob | null> {
    const paint = { ...this.paint(1), margin: [0, 0] as [number, number], covered: 0 };
    const canvas = document.createElement("canvas");
    canvas.width = Math.round(paint.width * paint.ratio);
    canvas.height = Math.round(paint.height * paint.ratio);
    const context = canvas.getContext("2d");
    if (context === null || this.scene === null) return Promise.resolve(null);
    draw(context, this.scene, paint);
    return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  }
}

/** Give nodes without a place one beside a neighbour that has one, or in a ring, so that they can be painted. */
function spread(scene: Scene): void {
  for (let i = 0; i < scene.x.length; i++) {
    if (!Number.isNaN(scene.x[i])) continue;
    const angle = i * 2.4, far = 12 * Math.sqrt(i + 1);
    scene.x[i] = far * Math.cos(angle);
    scene.y[i] = far * Math.sin(angle);
  }
}

/** Read the colours of the style sheet, for the painter, which has none. */
export function coloursOf(element: Element): Colours {
  const style = getComputedStyle(element);
  const read = (name: string) => style.getPropertyValue(name).trim();
  const eight = (end: string) => Array.from({ length: 8 }, (_, i) => read(`--t${i + 1}${end}`));
  return {
    canvas: read("--canvas"),
    text: read("--text"),
    soft: read("--soft"),
    wire: read("--wire"),
    strong: read("--wire-strong"),
    accent: read("--accent"),
    weak: read("--accent-weak"),
    sans: read("--sans"),
    mono: read("--mono"),
    fills: eight(""),
    outlines: eight("o"),
    letters: eight("l"),
  };
}
