// Values of properties and cells, as text. Nothing of a graph is ever markup.
import type { ComponentChildren } from "preact";

export function textOf(value: unknown): string {
  if (value === null || value === undefined) return "null";
  if (typeof value === "string") return value;
  if (typeof value === "object") {
    const special = specialText(value as Record<string, unknown>);
    return special ?? JSON.stringify(value);
  }
  return String(value);
}

function specialText(value: Record<string, unknown>): string | null {
  if (typeof value["$vector"] === "number") return `vector of ${value["$vector"]}`;
  const blob = value["$blob"] as { size?: number; uri?: string } | undefined;
  if (blob === undefined) return null;
  if (blob.uri !== undefined) return blob.uri;
  return blob.size === undefined ? "blob" : `blob of ${blob.size.toLocaleString("en")} bytes`;
}

/** A value to read: what nothing is, what is long, and links that are safe to follow. */
export function Value({ value, limit = 400 }: { value: unknown; limit?: number }): ComponentChildren {
  if (value === null || value === undefined) return <i class="null">null</i>;
  const text = textOf(value);
  const uri = (value as { $blob?: { uri?: string } }).$blob?.uri;
  if (uri !== undefined && /^https?:\/\//i.test(uri))
    return (
      <a href={uri} target="_blank" rel="noreferrer noopener">
        {uri}
      </a>
    );
  const special = typeof value === "object" && specialText(value as Record<string, unknown>) !== null;
  if (text.length > limit) return <span dir="auto">{`${text.slice(0, limit)}…`}</span>;
  return special ? <span class="faint">{text}</span> : <span dir="auto">{text}</span>;
}
