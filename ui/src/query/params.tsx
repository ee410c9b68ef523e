// The form of a query's parameters, and how what is typed becomes a value. What cannot be one is never sent.
import type { StoredParameter } from "../api";
import type { Parameter } from "./scan";

export interface Field {
  name: string;
  /** A type of the query language (`I32`, `[String]`), or the kind of a stored query's parameter. */
  type: string;
  nullable: boolean;
  /** The values to choose from, where they are known. */
  choices?: readonly string[];
}

export const ofDeclaration = (params: readonly Parameter[], choices: ReadonlyMap<string, string[]>): Field[] =>
  params.map((each) => {
    const values = each.type === "String" ? choices.get(each.name) : undefined;
    return values === undefined ? { ...each } : { ...each, choices: values };
  });

const KINDS: Record<string, string> = { string: "String", bool: "Bool", int: "I32", bigint: "I64", float: "F64", date: "Date", datetime: "DateTime", blob: "String" };

export const ofStored = (params: readonly StoredParameter[]): Field[] =>
  params.map((each) => ({ name: each.name, nullable: each.nullable, type: each.kind === "list" ? `[${KINDS[each.item_kind ?? "string"] ?? "String"}]` : (KINDS[each.kind] ?? each.kind) }));

const RANGES: Record<string, [bigint, bigint]> = {
  I8: [-128n, 127n],
  I16: [-32_768n, 32_767n],
  I32: [-(2n ** 31n), 2n ** 31n - 1n],
  I64: [-(2n ** 63n), 2n ** 63n - 1n],
  U8: [0n, 255n],
  U16: [0n, 65_535n],
  U32: [0n, 2n ** 32n - 1n],
  U64: [0n, 2n ** 64n - 1n],
};

export class NoValue extends Error {}

/** Return the value of what was typed; ``NoValue`` says why it is none. */
export function valueOf(field: Field, typed: string | undefined): unknown {
  const text = typed ?? "";
  const { type } = field;
  if (text === "" && field.nullable) return null;
  const range = RANGES[type];
  if (range !== undefined) {
    if (!/^[+-]?\d+$/.test(text.trim())) throw new NoValue(`${field.name} is a whole number`);
    const whole = BigInt(text.trim().replace(/^\+/, ""));
    if (whole < range[0] || whole > range[1]) throw new NoValue(`${field.name} is from ${range[0]} to ${range[1]}`);
    return type.endsWith("64") ? String(whole) : Number(whole);
  }
  if (type === "F64" || type === "F32") {
    const number = Number(text);
    if (text.trim() === "" || !Number.isFinite(number)) throw new NoValue(`${field.name} is a number`);
    return number;
  }
  if (type === "Bool") {
    if (text !== "true" && text !== "false") throw new NoValue(`${field.name} is true or false`);
    return text === "true";
  }
  if (field.choices !== undefined && text === "") throw new NoValue(`${field.name} is one of ${field.choices.join(", ")}`);
  if (type === "Date" && !/^\d{4}-\d{2}-\d{2}$/.test(text)) throw new NoValue(`${field.name} is a date such as 2026-01-31`);
  if (type === "DateTime") {
    if (!/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}/.test(text)) throw new NoValue(`${field.name} is a time such as 2026-01-31T08:00:00Z`);
    return text;
  }
  if (type.startsWith("[") || type.startsWith("Vector") || type === "vector" || type === "list") {
    try {
      const list: unknown = JSON.parse(text);
      if (Array.isArray(list)) return list;
    } catch {
      // Told below.
    }
    throw new NoValue(`${field.name} is a list in JSON, such as [1, 2]`);
  }
  return text;
}

/** Return the values of all fields, or which field has none and why. */
export function valuesOf(fields: readonly Field[], typed: Record<string, string>): { values: Record<string, unknown> } | { field: string; why: string } {
  const values: Record<string, unknown> = {};
  for (const field of fields) {
    try {
      values[field.name] = valueOf(field, typed[field.name]);
    } catch (error) {
      return { field: field.name, why: (error as Error).message };
    }
  }
  return { values };
}

interface FormProps {
  fields: readonly Field[];
  typed: Record<string, string>;
  wrong: { field: string; why: string } | null;
  onType: (name: string, text: string) => void;
  onEnter: () => void;
}

export const ParameterForm = ({ fields, typed, wrong, onType, onEnter }: FormProps) => (
  <form
    class="params"
    onSubmit={(event) => {
      event.preventDefault();
      onEnter();
    }}
  >
    {fields.map((field) => {
      const bad = wrong?.field === field.name;
      const id = `param-${field.name}`;
      const value = typed[field.name] ?? "";
      const listed = field.type === "Bool" ? ["true", "false"] : field.choices;
      // What a link or an earlier run brought stays to be seen, also if it is no choice.
      const choices = listed === undefined || value === "" || listed.includes(value) ? listed : [...listed, value];
      return (
        <div class="param" key={field.name}>
          <label for={id}>
            ${field.name} <span class="faint">{field.type + (field.nullable ? "?" : "")}</span>
          </label>
          {choices !== undefined ? (
            <select id={id} class="field" value={value} aria-invalid={bad} aria-describedby={bad ? `${id}-why` : undefined} onChange={(event) => onType(field.name, event.currentTarget.value)}>
              <option value="">{field.nullable ? "null" : "choose"}</option>
              {choices.map((each) => (
                <option key={each} value={each}>{each}</option>
              ))}
            </select>
          ) : (
            <input
              id={id}
              class="field"
              type="text"
              inputMode={/^[IUF]\d+$/.test(field.type) ? "decimal" : undefined}
              value={value}
              aria-invalid={bad}
              aria-describedby={bad ? `${id}-why` : undefined}
              placeholder={field.nullable ? "null" : field.type === "Date" ? "2026-01-31" : ""}
              spellcheck={false}
              autocomplete="off"
              onInput={(event) => onType(field.name, event.currentTarget.value)}
            />
          )}
          {bad && (
            <p class="wrong small" id={`${id}-why`} role="alert">
              {wrong.why}
            </p>
          )}
        </div>
      );
    })}
    <button class="hidden" type="submit" tabIndex={-1} aria-hidden="true">
      Run
    </button>
  </form>
);
