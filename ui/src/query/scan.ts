// Reads just enough of query text to help while it is half typed: tokens, declarations, types of variables.
import type { Catalog } from "../api";

export type TokenKind = "comment" | "string" | "number" | "variable" | "word" | "mark";
export interface Token {
  kind: TokenKind;
  text: string;
  from: number;
  to: number;
}
export interface Parameter {
  name: string;
  type: string;
  nullable: boolean;
}
export interface Declaration {
  name: string;
  params: Parameter[];
  isMutation: boolean;
  /** The text of it alone, and where that stands. */
  from: number;
  to: number;
}

const TOKEN = /(\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$))|("(?:[^"\\\n]|\\.)*"?)|(\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)|(\$[A-Za-z_]\w*|\$_)|([A-Za-z_]\w*)|([^\s])/g;
const KINDS: TokenKind[] = ["comment", "string", "number", "variable", "word", "mark"];

export function tokens(text: string): Token[] {
  const found: Token[] = [];
  for (const match of text.matchAll(TOKEN)) {
    const at = match.slice(1).findIndex((group) => group !== undefined);
    found.push({ kind: KINDS[at] ?? "mark", text: match[0], from: match.index, to: match.index + match[0].length });
  }
  return found;
}

const WRITES = new Set(["insert", "update", "delete", "upsert"]);

/** Return the queries that a text declares, as far as it is written. */
export function declarations(text: string): Declaration[] {
  const all = tokens(text).filter((token) => token.kind !== "comment");
  const found: Declaration[] = [];
  let depth = 0;
  let current: Declaration | null = null;
  for (let i = 0; i < all.length; i++) {
    const token = all[i]!;
    if (depth === 0 && token.kind === "word" && token.text === "query") {
      const name = all[i + 1]?.kind === "word" ? all[i + 1]!.text : "";
      current = { name, params: parameters(all, i + 1), isMutation: false, from: token.from, to: text.length };
      found.push(current);
    } else if (token.text === "{" && token.kind === "mark") depth++;
    else if (token.text === "}" && token.kind === "mark") {
      depth = Math.max(0, depth - 1);
      if (depth === 0 && current !== null) current.to = token.to;
    } else if (depth === 1 && current !== null && token.kind === "word" && WRITES.has(token.text)) current.isMutation = true;
  }
  return found;
}

function parameters(all: Token[], from: number): Parameter[] {
  const found: Parameter[] = [];
  let i = from;
  while (i < all.length && all[i]!.text !== "(" && all[i]!.text !== "{") i++;
  if (all[i]?.text !== "(") return found;
  let deep = 0;
  for (; i < all.length; i++) {
    const token = all[i]!;
    if (token.text === "(") deep++;
    if (token.text === ")" && --deep === 0) break;
    if (token.kind !== "variable" || all[i + 1]?.text !== ":") continue;
    let type = "", inner = 0;
    for (let j = i + 2; j < all.length; j++) {
      const text = all[j]!.text;
      if (inner === 0 && (text === "," || text === ")" || text === "=")) break;
      if ("([{".includes(text)) inner++;
      if (")]}".includes(text)) inner--;
      type += text;
    }
    found.push({ name: token.text.slice(1), type: type.replace(/\?$/, ""), nullable: type.endsWith("?") });
  }
  return found;
}

/** The declaration at a place of the text, else the nearest one before it. */
export function declarationAt(text: string, place: number): Declaration | null {
  const all = declarations(text);
  return all.findLast((each) => each.from <= place) ?? all[0] ?? null;
}

/** What is known of the types of variables: from bindings `$x: T`, and from edges `$x word $y`. */
export function variableTypes(text: string, catalog: Catalog): Map<string, string> {
  const all = tokens(text).filter((token) => token.kind !== "comment");
  const nodes = new Set([...catalog.nodes, ...catalog.interfaces].map((each) => each.name));
  const edges = new Map(catalog.edges.map((each) => [each.word, each]));
  const found = new Map<string, string>();
  for (let i = 0; i < all.length; i++) {
    const [a, b, c] = [all[i]!, all[i + 1], all[i + 2]];
    if (a.kind !== "variable" || b === undefined || c === undefined) continue;
    if (b.text === ":" && nodes.has(c.text)) found.set(a.text, c.text);
    const edge = b.kind === "word" ? edges.get(b.text) : undefined;
    if (edge === undefined) continue;
    if (!found.has(a.text)) found.set(a.text, edge.from);
    let j = i + 2;
    if (all[j]?.text === "{") while (j < all.length && all[j++]!.text !== "}");
    const end = all[j];
    if (end?.kind === "variable" && !found.has(end.text)) found.set(end.text, edge.to);
  }
  return found;
}

/** The values that parameters can have because they are compared with an enum: `{ level: $l }`, `$x.level = $l`. */
export function choicesOf(text: string, catalog: Catalog): Map<string, string[]> {
  const all = tokens(text).filter((token) => token.kind !== "comment");
  const types = variableTypes(text, catalog);
  const known = new Map([...catalog.nodes, ...catalog.interfaces].map((each) => [each.name, each.properties]));
  const found = new Map<string, string[]>();
  let bound = "";
  for (let i = 0; i + 2 < all.length; i++) {
    const [a, b, c, d, e] = [all[i]!, all[i + 1]!, all[i + 2]!, all[i + 3], all[i + 4]];
    if (a.kind === "variable" && b.text === ":" && known.has(c.text)) bound = c.text;
    const inline = a.kind === "word" && b.text === ":" && c.kind === "variable";
    const compared = a.kind === "variable" && b.text === "." && d?.text === "=" && e?.kind === "variable";
    if (!inline && !compared) continue;
    const properties = known.get(inline ? bound : (types.get(a.text) ?? "")) ?? [];
    const values = properties.find((each) => each.name === (inline ? a.text : c.text))?.enum;
    if (values !== undefined) found.set((inline ? c : e!).text.slice(1), values);
  }
  return found;
}

/** Turn a place that counts code points, as the server does, into one that counts UTF-16 units. */
export function unitsAt(text: string, points: number): number {
  let units = 0;
  for (const letter of text) {
    if (points-- <= 0) break;
    units += letter.length;
  }
  return units;
}
