// The texts of the query view, kept by graph, and the runs that were made.
import { batch, computed, signal } from "@preact/signals";
import type { Target } from "../api";
import { keep, kept } from "../keep";
import { declarations } from "./scan";

export interface Tab {
  id: number;
  name: string;
  text: string;
  params: Record<string, string>;
}
export interface Run {
  name: string;
  text: string;
  params: Record<string, string>;
  target: Target;
  rows: number;
  ms: number;
  at: number;
  failed?: boolean;
  wrote?: boolean;
}

const MOST_RUNS = 200;

export const tabs = signal<Tab[]>([]);
export const current = signal(0);
export const runs = signal<Run[]>([]);
export const tab = computed<Tab | undefined>(() => tabs.value.find((each) => each.id === current.value) ?? tabs.value[0]);
/** Counts up when a query is to run as soon as the view is there. */
export const runSoon = signal(0);

/** Whether what the browser keeps of this graph was read; before that no text can be opened. */
export const ready = signal(false);

export function readKept(): void {
  batch(() => {
    ready.value = true;
    tabs.value = kept<Tab[]>("tabs", []);
    current.value = kept("tab", tabs.value[0]?.id ?? 0);
    runs.value = kept<Run[]>("runs", []);
  });
}

function changed(next: Tab[]): void {
  tabs.value = next;
  keep("tabs", next);
}

export function openText(name: string, text: string, params: Record<string, string> = {}): void {
  const same = tabs.value.find((each) => each.text === text);
  const id = same?.id ?? Math.max(0, ...tabs.value.map((each) => each.id)) + 1;
  batch(() => {
    if (same === undefined) changed([...tabs.value, { id, name, text, params }]);
    choose(id);
  });
}

export function choose(id: number): void {
  current.value = id;
  keep("tab", id);
}

export function close(id: number): void {
  const at = tabs.value.findIndex((each) => each.id === id);
  const left = tabs.value.filter((each) => each.id !== id);
  batch(() => {
    changed(left);
    if (current.value === id) choose(left[Math.max(0, at - 1)]?.id ?? 0);
  });
}

export function setText(id: number, text: string): void {
  const name = declarations(text)[0]?.name;
  changed(tabs.value.map((each) => (each.id === id ? { ...each, text, name: name || each.name } : each)));
}

export function setParam(id: number, name: string, value: string): void {
  changed(tabs.value.map((each) => (each.id === id ? { ...each, params: { ...each.params, [name]: value } } : each)));
}

export function remember(run: Run): void {
  runs.value = [run, ...runs.value].slice(0, MOST_RUNS);
  keep("runs", runs.value);
}
