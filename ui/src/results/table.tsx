// A table of rows of one height, of which only those in sight are in the page.
import { useSignal } from "@preact/signals";
import { memo } from "preact/compat";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { QueryAnswer, Row } from "../api";
import { copy, Dialog, Icon, Mark, number, pull, save } from "../parts";
import { letterKeys } from "../state";
import { textOf, Value } from "../values";

const HIGH = 28;
const SPARE = 8;

interface Props {
  answer: QueryAnswer;
  chosen: number | null;
  /** The rows that name the node that is looked at. */
  naming: ReadonlySet<number>;
  choose: (row: number) => void;
}

export function ResultTable({ answer, chosen, naming, choose }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const high = useSignal(400);
  const order = useSignal<{ column: string; down: boolean } | null>(null);
  const filter = useSignal("");
  const opened = useSignal<{ title: string; value: unknown } | null>(null);
  const widths = useSignal<ReadonlyMap<string, number>>(new Map());
  useEffect(() => {
    const seen = new ResizeObserver(() => (high.value = box.current?.clientHeight ?? 400));
    seen.observe(box.current!);
    return () => seen.disconnect();
  }, []);
  const rows = useMemo(() => arranged(answer, order.value, filter.value), [answer, order.value, filter.value]);
  const first = Math.max(0, Math.floor(top.value / HIGH) - SPARE);
  const last = Math.min(rows.length, Math.ceil((top.value + high.value) / HIGH) + SPARE);
  const width = `44px ${answer.columns.map((name) => (widths.value.has(name) ? `${widths.value.get(name)}px` : "minmax(120px, 1fr)")).join(" ")}`;
  const pressed = (event: KeyboardEvent) => {
    if (event.target !== box.current || event.ctrlKey || event.metaKey || event.altKey) return;
    const letters = letterKeys.value;
    const step = event.key === "ArrowDown" || (letters && event.key === "j") ? 1 : event.key === "ArrowUp" || (letters && event.key === "k") ? -1 : 0;
    const at = rows.findIndex((each) => each.at === chosen);
    if (event.key === "Enter" && at >= 0) opened.value = { title: `Row ${number(chosen! + 1)}`, value: rows[at]!.row };
    else if (step === 0) return;
    else {
      const next = Math.min(rows.length - 1, Math.max(0, at < 0 ? first : at + step));
      choose(rows[next]!.at);
      const element = box.current!, from = next * HIGH;
      if (from < element.scrollTop) element.scrollTop = from;
      else if (from + 2 * HIGH > element.scrollTop + element.clientHeight) element.scrollTop = from + 2 * HIGH - element.clientHeight;
    }
    event.preventDefault();
  };
  return (
    <div class="rows">
      <div class="strip-small">
        <input class="field" type="search" placeholder="Filter these rows" aria-label="Filter these rows" value={filter.value} onInput={(event) => (filter.value = event.currentTarget.value)} />
        <span class="soft small">{rows.length === answer.rows.length ? "" : `${number(rows.length)} of ${number(answer.rows.length)} rows`}</span>
        <span class="gap" />
        <button class="button small" onClick={() => void copy(csv(answer, rows), "CSV")}>
          Copy CSV
        </button>
        <button class="button small" onClick={() => save("rows.csv", new Blob([csv(answer, rows)], { type: "text/csv" }))}>
          <Icon name="load" /> CSV
        </button>
      </div>
      <div class="table" role="table" aria-label="Rows" aria-rowcount={rows.length + 1} tabIndex={0} ref={box} onKeyDown={pressed} onScroll={() => (top.value = box.current?.scrollTop ?? 0)}>
        <div class="tr th" role="row" style={{ gridTemplateColumns: width }}>
          <span role="columnheader" class="faint">
            #
          </span>
          {answer.schema.map((column) => (
            <span role="columnheader" key={column.name} aria-sort={order.value?.column === column.name ? (order.value.down ? "descending" : "ascending") : "none"}>
              <button class="bare" title={`${column.type}${column.nullable ? ", may be null" : ""}`} onClick={() => (order.value = turned(order.value, column.name))}>
                {column.entity !== undefined && <Mark type={column.entity.type} />}
                {column.name}
                <span class="faint">{order.value?.column === column.name ? (order.value.down ? " ↓" : " ↑") : ""}</span>
              </button>
              <span class="grip" aria-hidden="true" onPointerDown={(event) => pull(event, event.currentTarget.parentElement!.offsetWidth, (wide) => (widths.value = new Map(widths.value).set(column.name, Math.max(48, wide))))} />
            </span>
          ))}
        </div>
        <div class="all" style={{ height: `${rows.length * HIGH}px` }} role="rowgroup">
          {rows.slice(first, last).map(({ row, at }, i) => (
            <Line
              key={at}
              row={row}
              at={at}
              place={first + i}
              columns={answer.columns}
              width={width}
              look={`tr${chosen === at ? " chosen" : ""}${naming.has(at) ? " named" : ""}`}
              choose={choose}
              open={(title, value) => (opened.value = { title, value })}
            />
          ))}
        </div>
      </div>
      {opened.value !== null && (
        <Dialog title={opened.value.title} wide close={() => (opened.value = null)}>
          <h2>{opened.value.title}</h2>
          <pre class="whole" tabIndex={0}>
            {whole(opened.value.value)}
          </pre>
          <div class="acts">
            <button class="button" onClick={() => void copy(whole(opened.value?.value), opened.value?.title ?? "")}>
              Copy
            </button>
            <button class="button main" onClick={() => (opened.value = null)}>
              Close
            </button>
          </div>
        </Dialog>
      )}
    </div>
  );
}

interface LineProps {
  row: Row;
  at: number;
  /** Where it stands among the rows that are shown. */
  place: number;
  columns: readonly string[];
  width: string;
  look: string;
  choose: (row: number) => void;
  open: (title: string, value: unknown) => void;
}

const LOOKS = ["row", "at", "place", "columns", "width", "look"] as const;

/** One row. While the table scrolls, those that stay in sight are not made again. */
const Line = memo(
  ({ row, at, place, columns, width, look, choose, open }: LineProps) => (
    <div class={look} role="row" aria-rowindex={place + 2} style={{ gridTemplateColumns: width, transform: `translateY(${place * HIGH}px)` }} onClick={() => choose(at)}>
      <span role="cell" class="faint">
        {number(at + 1)}
      </span>
      {columns.map((name) => (
        <span role="cell" key={name} onDblClick={() => open(name, row[name])} title={preview(row[name])}>
          <Value value={row[name]} limit={160} />
        </span>
      ))}
    </div>
  ),
  (before, now) => LOOKS.every((name) => before[name] === now[name]),
);

const whole = (value: unknown): string => (typeof value === "object" ? JSON.stringify(value, null, 2) : textOf(value));
const preview = (value: unknown): string => textOf(value).slice(0, 300);

function turned(before: { column: string; down: boolean } | null, column: string): { column: string; down: boolean } | null {
  if (before?.column !== column) return { column, down: false };
  return before.down ? null : { column, down: true };
}

function arranged(answer: QueryAnswer, order: { column: string; down: boolean } | null, filter: string): { row: Row; at: number }[] {
  const wanted = filter.toLowerCase();
  let found = answer.rows.map((row, at) => ({ row, at }));
  if (wanted !== "") found = found.filter(({ row }) => answer.columns.some((name) => textOf(row[name]).toLowerCase().includes(wanted)));
  if (order === null) return found;
  const type = answer.schema.find((each) => each.name === order.column)?.type ?? "";
  const sign = order.down ? -1 : 1;
  const value = ({ row }: { row: Row }) => row[order.column];
  return found.sort((a, b) => last(value(a)) - last(value(b)) || sign * compared(value(a), value(b), type) || a.at - b.at);
}

/** Null comes last, whichever way a column is sorted. */
const last = (value: unknown): number => (value === null || value === undefined ? 1 : 0);

/** Numbers that JSON does not have, and whole ones beyond 2⁵³, are texts in an answer, and numbers all the same. */
function compared(a: unknown, b: unknown, type: string): number {
  if (type === "bigint") {
    const [x, y] = [BigInt(a as string), BigInt(b as string)];
    return x < y ? -1 : x > y ? 1 : 0;
  }
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (type === "float") {
    const [x, y] = [Number(a), Number(b)];
    if (Number.isNaN(x) || Number.isNaN(y)) return (Number.isNaN(x) ? 1 : 0) - (Number.isNaN(y) ? 1 : 0);
    return x < y ? -1 : x > y ? 1 : 0;
  }
  const [x, y] = [textOf(a), textOf(b)];
  return x < y ? -1 : x > y ? 1 : 0;
}

function csv(answer: QueryAnswer, rows: { row: Row }[]): string {
  const field = (value: unknown) => {
    const text = value === null || value === undefined ? "" : textOf(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [answer.columns.map(field), ...rows.map(({ row }) => answer.columns.map((name) => field(row[name])))].map((line) => `${line.join(",")}\r\n`).join("");
}
