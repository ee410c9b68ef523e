// What stays in the browser between visits: texts, runs and sizes, by graph. Never answers, never a token.

const PREFIX = "omnigraph:";
let graph = "";

/** Keep things under this graph from now on. */
export function keepFor(name: string): void {
  graph = name;
}

export function kept<T>(name: string, otherwise: T, everywhere = false): T {
  try {
    const text = localStorage.getItem(key(name, everywhere));
    return text === null ? otherwise : (JSON.parse(text) as T);
  } catch {
    return otherwise;
  }
}

export function keep(name: string, value: unknown, everywhere = false): void {
  try {
    localStorage.setItem(key(name, everywhere), JSON.stringify(value));
  } catch {
    // The browser keeps nothing, or not so much: the page works without.
  }
}

export function forgetAll(): void {
  for (const name of Object.keys(localStorage)) if (name.startsWith(PREFIX)) localStorage.removeItem(name);
}

const key = (name: string, everywhere: boolean) => `${PREFIX}${everywhere ? "" : `${graph}:`}${name}`;
