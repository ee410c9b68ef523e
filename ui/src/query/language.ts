// Colours and completion for the query language. No word of it is reserved: what a word is, its neighbours say.
import { type Completion, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { HighlightStyle, StreamLanguage, syntaxHighlighting, type StringStream } from "@codemirror/language";
import { tags } from "@lezer/highlight";
import type { Catalog } from "../api";
import { catalog } from "../state";
import { declarationAt, variableTypes } from "./scan";

const CLAUSES = ["query", "match", "return", "order", "limit", "offset", "having", "not", "exists", "optional", "insert", "update", "delete", "upsert", "set", "where"];
const OTHERS = ["as", "asc", "desc", "distinct", "and", "or", "in", "is", "null", "true", "false", "for", "by", "contains", "starts_with", "ends_with", "now"];
const KEYWORDS = new Set([...CLAUSES, ...OTHERS]);
const AGGREGATES = ["count", "sum", "avg", "min", "max", "collect"];
const FUNCTIONS = ["search", "fuzzy", "match_text", "nearest", "bm25", "rrf", "abs", "ceil", "coalesce", "cost", "date", "datetime", "edges", "elapsed", "floor", "id", "if", "length", "lower", "nodes", "now", "part", "replace", "round", "shift", "substring", "text", "trim", "type", "upper"];

interface State {
  before: "" | "variable" | "dot" | "colon";
  block: boolean;
}

const language = StreamLanguage.define<State>({
  name: "gq",
  startState: () => ({ before: "", block: false }),
  token(stream: StringStream, state: State): string | null {
    if (state.block || stream.match("/*")) {
      state.block = true;
      while (!stream.eol()) {
        if (stream.match("*/")) {
          state.block = false;
          break;
        }
        stream.next();
      }
      return "comment";
    }
    if (stream.eatSpace()) return null;
    if (stream.match(/^\/\/.*/)) return "comment";
    const { before } = state;
    state.before = "";
    if (stream.match(/^"(?:[^"\\]|\\.)*"?/)) return "string";
    if (stream.match(/^\d[\d_]*(?:\.\d+)?/)) return "number";
    if (stream.match(/^\$\w+/)) {
      state.before = "variable";
      return "variableName";
    }
    if (stream.match(/^@\w+/)) return "meta";
    const word = stream.match(/^[A-Za-z_]\w*/) as RegExpMatchArray | null;
    if (word) {
      if (before === "dot") return "propertyName";
      if (before === "colon") return "typeName";
      // `$x word $y`, also with a number of steps, is an edge.
      if (before === "variable" && stream.match(/^\s*(?:\{[\d,\s]*\})?\s*\$/, false)) return "labelName";
      if (stream.match(/^\s*:/, false)) return "propertyName";
      if (stream.match(/^\s*\(/, false) && !KEYWORDS.has(word[0])) return "function";
      return KEYWORDS.has(word[0]) ? "keyword" : /^[A-Z]/.test(word[0]) ? "typeName" : null;
    }
    const mark = stream.next();
    state.before = mark === "." ? "dot" : mark === ":" ? "colon" : "";
    return null;
  },
  languageData: { commentTokens: { line: "//" }, closeBrackets: { brackets: ["(", "[", "{", '"'] } },
  tokenTable: { function: tags.function(tags.variableName) },
});

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--tok-keyword)" },
  { tag: tags.string, color: "var(--tok-string)" },
  { tag: tags.number, color: "var(--tok-number)" },
  { tag: tags.variableName, color: "var(--tok-var)", fontWeight: "600" },
  { tag: tags.typeName, color: "var(--tok-type)" },
  { tag: tags.propertyName, color: "var(--tok-prop)" },
  { tag: tags.labelName, color: "var(--tok-edge)", fontWeight: "600" },
  { tag: tags.comment, color: "var(--tok-comment)", fontStyle: "italic" },
  { tag: tags.meta, color: "var(--tok-keyword)" },
]);

export const queryLanguage = [language, syntaxHighlighting(colours)];

/** Offer what can stand at the cursor, from the catalog alone. */
export function complete(context: CompletionContext): CompletionResult | null {
  const types = catalog.peek();
  if (types === null) return null;
  const text = context.state.doc.toString();
  const before = context.state.sliceDoc(Math.max(0, context.pos - 200), context.pos);
  const property = /(\$\w+)\.(\w*)$/.exec(before);
  const start = (typed: string) => context.pos - typed.length;
  if (property) return { from: start(property[2]!), options: propertiesOf(types, text, context.pos, property[1]!), validFor: /^\w*$/ };
  const variable = /\$\w*$/.exec(before);
  if (variable) return { from: start(variable[0]), options: variablesOf(text, context.pos), validFor: /^\$\w*$/ };
  const binding = /:\s*(\w*)$/.exec(before);
  if (binding) return { from: start(binding[1]!), options: typesOf(types, before), validFor: /^\w*$/ };
  const edge = /(\$\w+)[ \t]+(\w*)$/.exec(before);
  if (edge && (edge[2] !== "" || context.explicit)) return { from: start(edge[2]!), options: edgesOf(types, text, context.pos, edge[1]!), validFor: /^\w*$/ };
  const inside = /(?:^|[^\w$.])(\w+)$/.exec(before);
  if (!inside && !context.explicit) return null;
  return { from: start(inside?.[1] ?? ""), options: words(types, before), validFor: /^\w*$/ };
}

function part(text: string, place: number): string {
  const declared = declarationAt(text, place);
  return declared === null ? text : text.slice(declared.from, declared.to);
}

function propertiesOf(types: Catalog, text: string, place: number, variable: string): Completion[] {
  const type = variableTypes(part(text, place), types).get(variable);
  const known = [...types.nodes, ...types.interfaces].filter((each) => type === undefined || each.name === type);
  const seen = new Map(known.flatMap((each) => each.properties.map((property) => [property.name, property])));
  return [...seen.values()].map((each) => ({ label: each.name, type: "property", detail: `${each.list ? `[${each.type}]` : each.type}${each.nullable ? "?" : ""}` }));
}

function variablesOf(text: string, place: number): Completion[] {
  const found = new Set(part(text, place).match(/\$[A-Za-z]\w*/g) ?? []);
  return [...found].map((label) => ({ label, type: "variable" }));
}

function typesOf(types: Catalog, before: string): Completion[] {
  if (/\(\s*(?:[^()]*,)?\s*\$\w+\s*:\s*\w*$/.test(before))
    return ["String", "I32", "I64", "U64", "F64", "Bool", "Date", "DateTime"].map((label) => ({ label, type: "type" }));
  return [...types.nodes, ...types.interfaces].map((each) => ({ label: each.name, type: "type", ...(each.description ? { info: each.description } : {}) }));
}

function edgesOf(types: Catalog, text: string, place: number, variable: string): Completion[] {
  const from = variableTypes(part(text, place), types).get(variable);
  return types.edges.map((each) => ({
    label: each.word,
    type: "keyword",
    detail: `${each.from} → ${each.to}`,
    boost: from === undefined || each.from === from ? 1 : -1,
  }));
}

function words(types: Catalog, before: string): Completion[] {
  const calls = /\b(?:return|order|having)\s*\{[^{}]*$/.test(before) ? [...AGGREGATES, ...FUNCTIONS] : FUNCTIONS;
  return [
    ...CLAUSES.map((label) => ({ label, type: "keyword" })),
    ...calls.map((label) => ({ label, type: "function" })),
    ...types.nodes.map((each) => ({ label: each.name, type: "type" })),
  ];
}
