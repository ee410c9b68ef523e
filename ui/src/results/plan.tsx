// What a query does: its steps, and with a profile how long each took.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api, type Ask, type ExplainAnswer, type Phase, type Target } from "../api";
import { counted, Failure } from "../parts";

/** How much of a table an index covers, in words. */
const COVERAGE: Record<string, (column: string, kind: string) => string> = {
  indexed: (column, kind) => `${column}: ${kind} index`,
  degraded: (column, kind) => `${column}: ${kind} index of a part`,
  none: (column, kind) => `${column}: no ${kind} index`,
};

export function ResultPlan({ ask, target }: { ask: Ask; target: Target }) {
  const plan = useSignal<ExplainAnswer | null>(null);
  const error = useSignal<unknown>(null);
  const profile = useSignal(false);
  useEffect(() => {
    let gone = false;
    error.value = null;
    api.explain(ask, target, profile.value).then(
      (found) => {
        if (!gone) plan.value = found;
      },
      (failed: unknown) => {
        if (!gone) error.value = failed;
      },
    );
    return () => {
      gone = true;
    };
  }, [ask, profile.value]);
  const phases = plan.value?.profile === undefined ? [] : flat(plan.value.profile);
  const most = Math.max(0.001, ...phases.map(({ phase }) => phase.milliseconds));
  return (
    <div class="plan" tabIndex={0} role="region" aria-label="Plan">
      <label class="check">
        <input type="checkbox" checked={profile.value} onChange={(event) => (profile.value = event.currentTarget.checked)} /> Profile: run it, and say what each phase took
      </label>
      {error.value !== null && <Failure error={error.value} />}
      {plan.value === null && error.value === null && <p class="soft">Asking for the plan …</p>}
      {plan.value !== null && (
        <>
          <h2>Steps</h2>
          <ol>
            {plan.value.steps.map((step, i) => (
              <li key={i}>
                <code>{step.text}</code>
                {step.rows !== null && <span class="faint"> {counted(step.rows, "row")}</span>}
                {step.indexes.map((index) => (
                  <span key={index.column + index.kind} class="chip">
                    {COVERAGE[index.coverage]?.(index.column, index.kind) ?? `${index.column}: ${index.kind}, ${index.coverage}`}
                  </span>
                ))}
              </li>
            ))}
          </ol>
        </>
      )}
      {phases.length > 0 && (
        <>
          <h2>Phases</h2>
          <ul class="phases">
            {phases.map(({ phase, deep }, i) => (
              <li key={i}>
                <span style={{ paddingLeft: `${deep * 14}px` }}>
                  <code>{phase.name}</code>
                </span>
                <span class="faint">{phase.rows === null ? "" : counted(phase.rows, "row")}</span>
                <span class="bar-of">
                  <span style={{ width: `${(100 * phase.milliseconds) / most}%` }} />
                </span>
                <span>{phase.milliseconds.toFixed(1)} ms</span>
              </li>
            ))}
          </ul>
        </>
      )}
    </div>
  );
}

const flat = (phases: Phase[], deep = 0): { phase: Phase; deep: number }[] => phases.flatMap((phase) => [{ phase, deep }, ...flat(phase.phases, deep + 1)]);
