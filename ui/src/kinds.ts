// How types look: a colour, a shape and a letter each, the same everywhere.

export type Shape = "circle" | "square" | "diamond";
export interface Kind {
  name: string;
  /** 1 to 8: the colours `--t1` to `--t8` of the style sheet. */
  colour: number;
  shape: Shape;
  letter: string;
}

const SHAPES: readonly Shape[] = ["circle", "square", "diamond"];

/** Return the look of every type, in the order of the names. */
export function kindsOf(names: readonly string[]): Map<string, Kind> {
  const sorted = [...names].sort();
  return new Map(
    sorted.map((name, at) => [
      name,
      {
        name,
        colour: (at % 8) + 1,
        shape: SHAPES[Math.floor(at / 8) % 3] ?? "circle",
        letter: [...name][0]?.toUpperCase() ?? "?",
      },
    ]),
  );
}
