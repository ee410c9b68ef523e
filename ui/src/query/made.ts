// Queries made from the schema of a graph, for somebody who has not yet written one.
import type { Catalog, EdgeType, NodeName, NodeType, Property } from "../api";

export interface Made {
  name: string;
  title: string;
  about: string;
  text: string;
}

const CAPTIONS = ["name", "title", "label"];

/** Return the property that stands for a node in a table: its name, title or label, else its key. */
export function captionOf(type: NodeType): string | null {
  const texts = type.properties.filter((each) => each.type === "String" && !each.list);
  const named = CAPTIONS.flatMap((name) => texts.filter((each) => each.name === name))[0];
  return named?.name ?? type.key[0] ?? texts[0]?.name ?? null;
}

const shown = (variable: string, type: NodeType | undefined): string => {
  const property = type === undefined ? null : captionOf(type);
  return `$${variable}${property === null ? "" : `.${property}`} as ${variable}`;
};

/** A clause with its parts on lines of their own. */
const clause = (word: string, parts: readonly string[], between = ""): string => `  ${word} {\n${parts.map((part) => `    ${part}`).join(`${between}\n`)}\n  }\n`;

/** A word that can stand as a variable: small letters, without anything else. */
const variable = (name: string): string => {
  const plain = name.replace(/[^A-Za-z0-9_]/g, "").toLowerCase();
  return /^[a-z]/.test(plain) ? plain : "n";
};

function ends(edge: EdgeType): [string, string] {
  const from = variable(edge.from), to = variable(edge.to);
  return from === to ? [from, `other_${to}`] : [from, to];
}

export function sampleOf(edge: EdgeType, limit: number): string {
  return `query sample() {\n  match {\n    $a: ${edge.from}\n    $a ${edge.word} $b\n  }\n  return { $a, $b }\n  limit ${limit}\n}`;
}

export function sampleNodes(type: string, limit: number): string {
  return `query sample() {\n  match { $n: ${type} }\n  return { $n }\n  limit ${limit}\n}`;
}

/** All properties of some rows of a type that fit into a cell. */
export function lookAtType(type: NodeType): Made {
  const name = variable(type.name);
  const columns = type.properties.filter((each) => each.type !== "Vector" && each.type !== "Blob").map((each) => `$${name}.${each.name} as ${each.name}`);
  const text = `query look_at_${name}() {\n  match { $${name}: ${type.name} }\n  return {\n    $${name} as node${columns.map((each) => `,\n    ${each}`).join("")}\n  }\n  limit 25\n}\n`;
  return { name: `look_at_${name}`, title: `Some of ${type.name}`, about: `${type.name}, 25 rows`, text };
}

/** A query for one node and what its edges lead to. */
export function askAbout(catalog: Catalog, node: NodeName): Made {
  const type = catalog.nodes.find((each) => each.name === node.type);
  const name = variable(node.type);
  const edge = catalog.edges.find((each) => each.from === node.type) ?? catalog.edges.find((each) => each.to === node.type);
  const key = type?.key.length === 1 ? type.key[0]! : null;
  const filter = key === null ? "" : ` { ${key}: ${JSON.stringify(node.id)} }`;
  const lines = [`$${name}: ${node.type}${filter}`];
  const columns = [`$${name}`];
  if (edge !== undefined) {
    const out = edge.from === node.type;
    const other = `other_${variable(out ? edge.to : edge.from)}`;
    lines.push(out ? `$${name} ${edge.word} $${other}` : `$${other} ${edge.word} $${name}`);
    columns.push(`$${other}`);
  }
  const text = `query about_${name}() {\n  match {\n    ${lines.join("\n    ")}\n  }\n  return { ${columns.join(", ")} }\n}\n`;
  return { name: `about_${name}`, title: `About ${node.id}`, about: node.type, text };
}

/** Up to four questions that this schema can answer, the fullest tables first. */
export function questions(catalog: Catalog, rows: ReadonlyMap<string, number>): Made[] {
  const nodes = new Map(catalog.nodes.map((each) => [each.name, each]));
  const count = (edge: EdgeType) => rows.get(`edge:${edge.name}`) ?? 0;
  const edges = catalog.edges.filter((edge) => count(edge) > 0 && nodes.has(edge.from) && nodes.has(edge.to)).sort((a, b) => count(b) - count(a));
  const made: Made[] = [];
  const first = edges.find((edge) => edge.from !== edge.to) ?? edges[0];
  if (first !== undefined) made.push(along(first, nodes));
  if (edges[0] !== undefined) made.push(mostFrequent(edges[0], nodes));
  const full = catalog.nodes.filter((each) => (rows.get(`node:${each.name}`) ?? 0) > 0);
  const worded = find(full, (property) => property.index === "text");
  if (worded !== undefined) made.push(byWords(...worded));
  const meant = find(full, (property) => property.index === "vector" && property.embed !== undefined);
  if (meant !== undefined) made.push(byMeaning(...meant));
  if (made.length === 0 && full[0] !== undefined) made.push(lookAtType(full[0]));
  return made;
}

function find(types: NodeType[], fits: (property: Property) => boolean): [NodeType, Property] | undefined {
  for (const type of types) {
    const property = type.properties.find(fits);
    if (property !== undefined) return [type, property];
  }
  return undefined;
}

const matched = (a: string, edge: EdgeType, b: string): string => clause("match", [`$${a}: ${edge.from}`, `$${a} ${edge.word} $${b}`]);

function along(edge: EdgeType, nodes: ReadonlyMap<string, NodeType>): Made {
  const [a, b] = ends(edge);
  return {
    name: `who_${variable(edge.word)}`,
    title: `Which ${edge.from} ${edge.word} which ${edge.to}`,
    about: `$${a} ${edge.word} $${b}`,
    text: `query who_${variable(edge.word)}() {\n${matched(a, edge, b)}${clause("return", [shown(a, nodes.get(edge.from)), shown(b, nodes.get(edge.to))], ",")}  limit 100\n}\n`,
  };
}

function mostFrequent(edge: EdgeType, nodes: ReadonlyMap<string, NodeType>): Made {
  const [a, b] = ends(edge);
  const many = b === "edges" ? "number" : "edges";
  return {
    name: `most_${variable(edge.word)}`,
    title: `Which ${edge.to} has most “${edge.word}” edges`,
    about: `$${a} ${edge.word} $${b}, counted`,
    text: `query most_${variable(edge.word)}() {\n${matched(a, edge, b)}${clause("return", [shown(b, nodes.get(edge.to)), `count($${a}) as ${many}`], ",")}  order { ${many} desc }\n  limit 10\n}\n`,
  };
}

function byWords(type: NodeType, property: Property): Made {
  const name = variable(type.name);
  return {
    name: `find_${name}`,
    title: `${type.name} by words`,
    about: `search($${name}.${property.name}, $text)`,
    text: `query find_${name}($text: String) {\n  match {\n    $${name}: ${type.name}\n    search($${name}.${property.name}, $text)\n  }\n  return { $${name}, $${name}.${property.name} as ${property.name} }\n  order { bm25($${name}.${property.name}, $text) }\n  limit 20\n}\n`,
  };
}

function byMeaning(type: NodeType, property: Property): Made {
  const name = variable(type.name);
  return {
    name: `like_${name}`,
    title: `${type.name} like a text`,
    about: `nearest($${name}.${property.name}, $text)`,
    text: `query like_${name}($text: String) {\n  match { $${name}: ${type.name} }\n  return { $${name}${type.key[0] === undefined ? "" : `, $${name}.${type.key[0]} as ${type.key[0]}`} }\n  order { nearest($${name}.${property.name}, $text) }\n  limit 10\n}\n`,
  };
}
