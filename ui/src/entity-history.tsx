// How a node or edge came to be so: its changes, newest first, and who gave each property its value.
import { signal, useSignal, type Signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api, type Author, type Blame, type Change, type EntityName, type Target } from "./api";
import { counted, Failure, Time } from "./parts";
import { fragment, lookAt, view } from "./state";
import { textOf } from "./values";

const PAGE = 20;
/** Whether panels say of each property who set it. */
export const blaming = signal(false);

/** Read, for as long as it is asked for, who gave each property its value. */
export function useBlame(entity: EntityName, at: Target): Signal<Blame | null> {
  const told = useSignal<Blame | null>(null);
  useEffect(() => {
    let gone = false;
    told.value = null;
    if (blaming.value) {
      // What goes wrong is said below, where the history is asked for in the same way.
      api.blame(entity, at).then((found) => { if (!gone) told.value = found; }, () => undefined);
    }
    return () => {
      gone = true;
    };
  }, [entity.kind, entity.type, entity.id, JSON.stringify(at), blaming.value]);
  return told;
}

/** The section of a panel with the changes of its node or edge, some at a time. */
export function History({ entity, at }: { entity: EntityName; at: Target }) {
  const changes = useSignal<Change[]>([]);
  const next = useSignal<string | null>(null);
  const isComplete = useSignal(true);
  const error = useSignal<unknown>(null);
  const reading = useSignal(0);
  const read = (before: string | null) => {
    const turn = ++reading.value;
    error.value = null;
    api.history(entity, at, PAGE, before).then(
      (page) => {
        if (turn !== reading.value) return;
        changes.value = before === null ? page.entries : [...changes.value, ...page.entries];
        next.value = page.next;
        isComplete.value = page.complete;
      },
      (failed: unknown) => {
        if (turn === reading.value) error.value = failed;
      },
    );
  };
  useEffect(() => {
    changes.value = [];
    next.value = null;
    read(null);
    return () => {
      reading.value++;
    };
  }, [entity.kind, entity.type, entity.id, JSON.stringify(at)]);
  return (
    <section class="came" aria-label="How it came to be so">
      <h3>
        How it came to be so
        <button class="bare r" aria-pressed={blaming.value} onClick={() => (blaming.value = !blaming.value)}>
          {blaming.value ? "Hide who set what" : "Who set what"}
        </button>
      </h3>
      {error.value !== null && <Failure error={error.value} retry={() => read(next.value)} />}
      <ol>
        {changes.value.map((change) => (
          <li key={change.graph_commit_id}>
            <Entry change={change} />
          </li>
        ))}
      </ol>
      {!isComplete.value && <p class="small faint pad">Deletions that an older release made may be missing.</p>}
      {next.value !== null && (
        <button class="button small" onClick={() => read(next.value)}>
          Older changes
        </button>
      )}
    </section>
  );
}

const WORDS = { insert: "Inserted", update: "Changed", delete: "Deleted" };

function Entry({ change }: { change: Change }) {
  const names = change.op === "update" ? change.changed : null;
  return (
    <>
      <p class="small">
        <b class={change.op}>{WORDS[change.op]}</b> <By author={change} />
      </p>
      {names?.length === 0 && <p class="small faint">Joined what two sides had changed.</p>}
      {names !== null && names.length > 0 && (
        <dl>
          {names.map((name) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd dir="auto">
                {change.before !== undefined && <><s>{short(valueOf(change.before, name))}</s> → </>}
                {change.after !== undefined && short(valueOf(change.after, name))}
              </dd>
            </div>
          ))}
        </dl>
      )}
      <Notes author={change} />
    </>
  );
}

/** Who made a commit and when, and a link to the state that it left. */
export function By({ author }: { author: Author }) {
  const at = { snapshot: author.graph_commit_id };
  return (
    <>
      {author.actor_id !== null && <>by <span dir="auto">{author.actor_id}</span> </>}
      <a
        href={fragment(view.value, at)}
        title={`Look at the graph as ${author.operation} ${author.graph_commit_id} left it`}
        onClick={(event) => {
          event.preventDefault();
          lookAt(at);
        }}
      >
        <Time micros={author.created_at} />
      </a>
      {author.branch !== null && <> on <span dir="auto">{author.branch}</span></>}
    </>
  );
}

function Notes({ author }: { author: Author }) {
  const { via, reclaimed, merged_by } = author;
  return (
    <>
      {merged_by !== null && <p class="small faint">merged by {merged_by.slice(0, 10)}</p>}
      {via !== undefined && (
        <p class="small faint" dir="auto">
          The merge brought {counted(via.commits, "commit")}
          {via.actors.length > 0 && ` by ${via.actors.join(", ")}`}.
        </p>
      )}
      {reclaimed !== undefined && <p class="small faint">With this commit or before: what was there earlier is gone.</p>}
    </>
  );
}

function valueOf(image: NonNullable<Change["before"]>, name: string): unknown {
  const properties = image.properties ?? {};
  return name in properties ? properties[name] : image.endpoints?.[name as "from" | "to"];
}

function short(value: unknown): string {
  const text = textOf(value);
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}
