// Paints pictures away from the page, one for every request, and hands them over as bitmaps.
import { draw } from "./draw";
import type { Paint, Scene, ViewBox } from "./scene";

export type ToPainter =
  | { kind: "scene"; scene: Scene }
  | { kind: "places"; x: Float32Array; y: Float32Array }
  | { kind: "paint"; paint: Paint };
export interface FromPainter {
  bitmap: ImageBitmap;
  view: ViewBox;
}

let scene: Scene | null = null;
let canvas: OffscreenCanvas | null = null;

self.addEventListener("message", (event: MessageEvent<ToPainter>) => {
  const message = event.data;
  if (message.kind === "scene") scene = message.scene;
  else if (message.kind === "places") {
    if (scene === null || scene.x.length !== message.x.length) return;
    scene.x = message.x;
    scene.y = message.y;
  } else if (scene !== null) {
    const { paint } = message;
    const width = Math.max(1, Math.round(paint.width * paint.ratio)), height = Math.max(1, Math.round(paint.height * paint.ratio));
    if (canvas === null) canvas = new OffscreenCanvas(width, height);
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
    }
    draw(canvas.getContext("2d", { alpha: false })!, scene, paint);
    const bitmap = canvas.transferToImageBitmap();
    const answer: FromPainter = { bitmap, view: paint.view };
    (self as unknown as Worker).postMessage(answer, [bitmap]);
  }
});
