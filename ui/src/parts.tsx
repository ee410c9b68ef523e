// Small parts that all views are made of.
import { signal, useSignal, type Signal } from "@preact/signals";
import type { ComponentChildren, TargetedKeyboardEvent, TargetedPointerEvent } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, type Commit } from "./api";
import { keep, kept } from "./keep";
import { kindsOf, type Kind } from "./kinds";
import { catalog, refresh, said } from "./state";

const PATHS: Record<string, string> = {
  home: "M2.5 7.5L8 3l5.5 4.5M4 6.5V13h8V6.5",
  code: "M5 4.5L1.5 8 5 11.5M11 4.5L14.5 8 11 11.5M9 3L7 13",
  bookmark: "M4 2.5h8v11L8 10.5l-4 3z",
  schema: "M2.5 2.5h4v4h-4zM9.5 9.5h4v4h-4zM6.5 4.5h5v5",
  branch: "M4.5 5v6M4.5 5a1.5 1.5 0 100-3 1.5 1.5 0 000 3zM4.5 14a1.5 1.5 0 100-3 1.5 1.5 0 000 3zM11.5 6a1.5 1.5 0 100-3 1.5 1.5 0 000 3zM11.5 6c0 3-3 3-7 3.5",
  down: "M4 6l4 4 4-4",
  find: "M7 12A5 5 0 107 2a5 5 0 000 10zM10.7 10.7L14 14",
  moon: "M13 9.5A5.5 5.5 0 016.5 3 5.5 5.5 0 1013 9.5z",
  sun: "M8 11a3 3 0 100-6 3 3 0 000 6zM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M3 13l1-1M12 4l1-1",
  play: "M5 3.5l7.5 4.5L5 12.5z",
  stop: "M4.5 4.5h7v7h-7z",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  fit: "M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10",
  layers: "M8 2v3M8 5L3.5 9M8 5l4.5 4M2 9.5h3v3H2zM11 9.5h3v3h-3zM6.5 2h3v3h-3z",
  undo: "M6 3L2.5 6.5 6 10M3 6.5h6a4 4 0 010 8H7",
  close: "M4 4l8 8M12 4l-8 8",
  check: "M3 8.5L6.5 12 13 4.5",
  pencil: "M3 13l.7-3L11 2.7l2.3 2.3L6 12.3z",
  alert: "M8 2l6.5 11.5h-13zM8 6.5v3.5M8 12v.1",
  link: "M6.5 9.5l3-3M7 4.5l1.5-1.5a3 3 0 014.5 4.5L11.5 9M9 11.5L7.5 13A3 3 0 013 8.5L4.5 7",
  folder: "M2 4h4l1.5 2H14v7H2z",
  load: "M8 2v8M5 7l3 3 3-3M3 13h10",
  list: "M5.5 4h8M5.5 8h8M5.5 12h8M2.5 4h.1M2.5 8h.1M2.5 12h.1",
};

export const Icon = ({ name }: { name: string }) => (
  <svg class="i" viewBox="0 0 16 16" aria-hidden="true">
    <path d={PATHS[name] ?? ""} />
  </svg>
);

export function allKinds(): Map<string, Kind> {
  return kindsOf((catalog.value?.nodes ?? []).map((each) => each.name));
}

/** The mark of a type: its colour, shape and letter. */
export function Mark({ type, large }: { type: string; large?: boolean }) {
  const kind = allKinds().get(type);
  return (
    <span class={`dot ${kind?.shape ?? "circle"} t${kind?.colour ?? 8}${large ? " large" : ""}`} aria-hidden="true">
      <span>{kind?.letter ?? "?"}</span>
    </span>
  );
}

/** The first two letters of a name, for a face. */
export const initials = (name: string): string => [...name].slice(0, 2).join("").toUpperCase();

export const number = (value: number): string => value.toLocaleString("en");
export const counted = (value: number, one: string, many = `${one}s`): string => `${number(value)} ${value === 1 ? one : many}`;

/** How long something took. */
export const took = (millis: number): string => (millis < 1000 ? `${Math.round(millis)} ms` : `${(millis / 1000).toFixed(1)} s`);

/** Counts up twice a minute: who reads it shows how long ago something was as time goes by. */
const passing = signal(0);
setInterval(() => passing.value++, 30_000);

/** How long ago something was, in the words people use. Times of commits are microseconds. */
export function ago(micros: number): string {
  void passing.value;
  const seconds = Math.max(0, (Date.now() - micros / 1000) / 1000);
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  if (seconds < 30 * 86_400) return `${Math.floor(seconds / 86_400)} days ago`;
  return new Date(micros / 1000).toLocaleDateString();
}

/** A moment in the words of the reader's place and zone. */
export const when = (millis: number): string => new Date(millis).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });

const BASE_32 = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** When a commit was made, in milliseconds: its id begins with that. */
export const madeAt = (commit: string): number => [...commit.slice(0, 10)].reduce((sum, letter) => 32 * sum + Math.max(0, BASE_32.indexOf(letter)), 0);

/** What a commit did, and who made it. */
export const CommitWords = ({ commit }: { commit: Commit }) => (
  <span class="cut-off">
    {commit.operation.replaceAll("_", " ")}
    {commit.actor_id !== null && <> by <span dir="auto">{commit.actor_id}</span></>}
  </span>
);

export const Time = ({ micros }: { micros: number }) => (
  <time dateTime={new Date(micros / 1000).toISOString()} title={new Date(micros / 1000).toISOString()}>
    {ago(micros)}
  </time>
);

/** Seconds until a server that is gone is asked again. */
const RETRY_SECONDS = 5;

/**
 * An error: what it says, what to do next, and the id of the request. Where the server is gone or busy, it is
 * tried again by itself after a while if that is asked for.
 */
export function Failure({ error, retry = refresh, byItself = false }: { error: unknown; retry?: () => void; byItself?: boolean }) {
  const known = error instanceof ApiError ? error : null;
  const [left, setLeft] = useState(0);
  useEffect(() => {
    const passes = known !== null && (known.status === 0 || known.status === 429 || known.status === 503);
    if (!byItself || !passes) return setLeft(0);
    let seconds = known.retryAfter || RETRY_SECONDS;
    setLeft(seconds);
    const timer = setInterval(() => {
      setLeft(--seconds);
      if (seconds > 0) return;
      clearInterval(timer);
      retry();
    }, 1000);
    return () => clearInterval(timer);
  }, [error]);
  return (
    <div class="failure" role="alert">
      <Icon name="alert" />
      <div>
        <p>{known?.message ?? String((error as Error)?.message ?? error)}</p>
        {known?.body.hint && <p class="soft">{known.body.hint}</p>}
        <p class="small faint">
          {known === null ? "" : nextStep(known)}
          {known !== null && known.status > 0 && ` · ${known.status} ${known.kind}`}
          {known?.requestId && ` · request ${known.requestId}`}
        </p>
        <button class="button small" onClick={retry}>
          Try again
        </button>
        {left > 0 && <span class="small faint" aria-hidden="true"> by itself in {left} s</span>}
      </div>
    </div>
  );
}

/** The conflicts that are gone once the state is read again; others say themselves what is in the way. */
const MOVED = ["expected_version_mismatch", "contention", "graph_replaced"];

function nextStep(error: ApiError): string {
  if (error.status === 0) return "What you typed is kept. Try again when the server is back.";
  if (error.status === 401) return "Sign in again.";
  if (error.status === 403) return "Ask whoever keeps the policy of this graph.";
  if (error.status === 404) return "It may have been removed meanwhile: choose another branch, tag or name.";
  if (error.status === 412 || MOVED.includes(error.kind)) return "The branch moved meanwhile; look again.";
  if (error.status === 409) return "Nothing was changed.";
  if (error.status === 410) return "That state was reclaimed; choose a newer one.";
  if (error.status === 413) return "Ask for less.";
  if (error.status === 429) return `The server is busy; try again in ${error.retryAfter || 1} s.`;
  if (error.status === 503) return `The server takes no requests now; try again in ${error.retryAfter || RETRY_SECONDS} s.`;
  if (error.status >= 500) return "The log of the server says more under this id.";
  return error.body.span === undefined ? "Mend the request." : "Mend the text where it is underlined.";
}

/** A button that opens a menu of choices. */
export function Menu({ label, button, children, disabled }: { label?: string; button: ComponentChildren; children: (close: () => void) => ComponentChildren; disabled?: boolean }) {
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const opener = useRef<HTMLButtonElement>(null);
  const close = () => {
    setOpen(false);
    opener.current?.focus();
  };
  useEffect(() => {
    if (!open) return;
    const outside = (event: Event) => {
      if (!box.current?.contains(event.target as Node)) setOpen(false);
    };
    document.addEventListener("pointerdown", outside);
    box.current?.querySelector<HTMLElement>(".menu input, .menu select, .menu button")?.focus();
    return () => document.removeEventListener("pointerdown", outside);
  }, [open]);
  const move = (event: KeyboardEvent) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      close();
    }
    if ((event.key !== "ArrowDown" && event.key !== "ArrowUp") || event.target instanceof HTMLSelectElement) return;
    event.preventDefault();
    const items = [...(box.current?.querySelectorAll<HTMLElement>(".menu button, .menu input, .menu select") ?? [])];
    const at = items.indexOf(document.activeElement as HTMLElement);
    items[(at + (event.key === "ArrowDown" ? 1 : items.length - 1)) % items.length]?.focus();
  };
  return (
    <div class="opens" ref={box} onKeyDown={open ? move : undefined}>
      <button ref={opener} class="bare" aria-label={label} aria-haspopup="true" aria-expanded={open} disabled={disabled} onClick={() => setOpen(!open)}>
        {button}
      </button>
      {open && <div class="menu">{children(close)}</div>}
    </div>
  );
}

/** A dialog that holds the focus, and gives it back. */
export function Dialog({ title, close, children, wide }: { title: string; close: () => void; children: ComponentChildren; wide?: boolean }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    element.current?.showModal();
    return () => before?.focus();
  }, []);
  return (
    <dialog ref={element} class={wide ? "wide" : ""} aria-label={title} onCancel={(event) => { event.preventDefault(); close(); }} onClick={(event) => event.target === element.current && close()}>
      <div class="dialog">{children}</div>
    </dialog>
  );
}

export const Key = ({ children }: { children: ComponentChildren }) => <kbd>{children}</kbd>;

export const Tabs = <T extends string>({ label, all, chosen, choose }: { label: string; all: readonly (readonly [T, string])[]; chosen: T; choose: (next: T) => void }) => (
  <div class="tabs" role="tablist" aria-label={label}>
    {all.map(([name, text]) => (
      <button
        key={name}
        role="tab"
        aria-selected={name === chosen}
        tabIndex={name === chosen ? 0 : -1}
        onClick={() => choose(name)}
        onKeyDown={(event: TargetedKeyboardEvent<HTMLButtonElement>) => {
          const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
          if (step === 0) return;
          const at = all.findIndex(([each]) => each === name);
          const next = all[(at + step + all.length) % all.length]!;
          choose(next[0]);
          (event.currentTarget.parentElement?.children[all.indexOf(next)] as HTMLElement | undefined)?.focus();
        }}
      >
        {text}
      </button>
    ))}
  </div>
);

const toast = signal("");
let clearing = 0;

/** Say something in the corner, and aloud. */
export function tell(text: string): void {
  toast.value = text;
  said.value = text;
  clearTimeout(clearing);
  clearing = setTimeout(() => (toast.value = ""), 4000) as unknown as number;
}

export const Toast = () => (toast.value === "" ? null : <div class="toast">{toast.value}</div>);

export async function copy(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    tell(`${what} copied`);
  } catch {
    tell("The browser does not let this page copy.");
  }
}

export function save(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Follow a drag of a line between two things, the left of which is so wide, and tell how wide it is to be. */
export function pull(event: TargetedPointerEvent<HTMLElement>, wide: number, told: (wide: number) => void): void {
  const line = event.currentTarget, start = event.clientX;
  event.preventDefault();
  line.setPointerCapture(event.pointerId);
  const moved = (next: PointerEvent) => told(wide + next.clientX - start);
  line.addEventListener("pointermove", moved);
  line.addEventListener("lostpointercapture", () => line.removeEventListener("pointermove", moved), { once: true });
}

const NARROWEST = 240, WIDEST = 1200;

/** How wide the left side of a view is, as this browser keeps it; null is as wide as usual. */
export const useLeftWidth = (): Signal<number | null> => useSignal(kept<number | null>("left", null));

/** The style of a view whose left side is so wide. */
export const leftStyle = (wide: Signal<number | null>) => (wide.value === null ? {} : { "--left": `${wide.value}px` });

/** The line between the two sides of a view: it is dragged, or moved by arrow keys; a double click puts it back. */
export function Divider({ wide, label }: { wide: Signal<number | null>; label: string }) {
  const line = useRef<HTMLDivElement>(null);
  const set = (next: number | null) => {
    wide.value = next === null ? null : Math.round(Math.min(Math.max(next, NARROWEST), WIDEST));
    keep("left", wide.value);
  };
  const now = () => line.current!.parentElement!.offsetWidth;
  return (
    <div
      ref={line}
      class="divider"
      role="separator"
      aria-orientation="vertical"
      aria-label={label}
      aria-valuemin={NARROWEST}
      aria-valuemax={WIDEST}
      aria-valuenow={wide.value ?? 420}
      title="Drag, or use the arrow keys; a double click puts it back"
      tabIndex={0}
      onPointerDown={(event) => pull(event, now(), set)}
      onDblClick={() => set(null)}
      onKeyDown={(event) => {
        if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
        event.preventDefault();
        set(now() + (event.key === "ArrowLeft" ? -20 : 20));
      }}
    />
  );
}
