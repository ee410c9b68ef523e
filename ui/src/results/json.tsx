// Rows as JSON, unfolded only where somebody looks.
import { useState } from "preact/hooks";
import type { QueryAnswer } from "../api";
import { copy, counted, Icon, number, save } from "../parts";

const AT_ONCE = 100;

export function ResultJson({ answer }: { answer: QueryAnswer }) {
  const text = () => JSON.stringify(answer.rows, null, 2);
  return (
    <div class="rows">
      <div class="strip-small">
        <span class="soft small">{counted(answer.rows.length, "row")}</span>
        <span class="gap" />
        <button class="button small" onClick={() => void copy(text(), "JSON")}>
          Copy JSON
        </button>
        <button class="button small" onClick={() => save("rows.json", new Blob([text()], { type: "application/json" }))}>
          <Icon name="load" /> JSON
        </button>
      </div>
      <div class="json" tabIndex={0} role="region" aria-label="Rows as JSON">
        <Tree name="rows" value={answer.rows} open />
      </div>
    </div>
  );
}

function Tree({ name, value, open = false }: { name: string; value: unknown; open?: boolean }) {
  const [unfolded, unfold] = useState(open);
  const [most, setMost] = useState(AT_ONCE);
  if (typeof value !== "object" || value === null)
    return (
      <div class="leaf">
        <span class="name">{name}</span>: <span class={value === null ? "null" : typeof value}>{leaf(value)}</span>
      </div>
    );
  const entries = Object.entries(value);
  return (
    <div class="branch-of">
      <button class="bare" aria-expanded={unfolded} onClick={() => unfold(!unfolded)}>
        <span class="fold">{unfolded ? "▾" : "▸"}</span>
        <span class="name">{name}</span> <span class="faint">{unfolded || name === "rows" ? sizeOf(value) : glance(value)}</span>
      </button>
      {unfolded && (
        <div class="inner">
          {entries.slice(0, most).map(([key, each]) => (
            <Tree key={key} name={key} value={each} open={name === "rows" && entries.length <= 20} />
          ))}
          {entries.length > most && (
            <button class="button small" onClick={() => setMost(most + 10 * AT_ONCE)}>
              {number(entries.length - most)} more
            </button>
          )}
        </div>
      )}
    </div>
  );
}

const sizeOf = (value: object): string => {
  const count = number(Object.keys(value).length);
  return Array.isArray(value) ? `[${count}]` : `{${count}}`;
};

/** The beginning of what is folded, without looking at all of it. */
function glance(value: object): string {
  const few = Object.entries(value).slice(0, 8);
  const parts = few.map(([key, each]) => {
    const shown = typeof each === "object" && each !== null ? sizeOf(each) : typeof each === "string" ? JSON.stringify(each.slice(0, 60)) : String(each);
    return Array.isArray(value) ? shown : `${key}: ${shown}`;
  });
  const more = Object.keys(value).length > few.length ? ", …" : "";
  const text = `${parts.join(", ")}${more}`;
  return Array.isArray(value) ? `[${text}]` : `{ ${text} }`;
}

const leaf = (value: unknown): string => {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 2000 ? `${text.slice(0, 2000)}…` : text;
};
