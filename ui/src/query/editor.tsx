// The editor: CodeMirror with our language, faults of the server's lint, and keys.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab, temporarilySetTabFocusMode } from "@codemirror/commands";
import { bracketMatching } from "@codemirror/language";
import { linter, lintKeymap, nextDiagnostic, type Diagnostic } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { EditorState, type Extension } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers, placeholder } from "@codemirror/view";
import { useEffect, useRef } from "preact/hooks";
import { api, ApiError, type Diagnostic as Fault } from "../api";
import { complete, queryLanguage } from "./language";
import { unitsAt } from "./scan";

const nonce = document.querySelector<HTMLMetaElement>("meta[property=csp-nonce]")?.nonce ?? "";

const look = EditorView.theme({
  "&": { height: "100%", backgroundColor: "transparent", color: "var(--text)" },
  ".cm-scroller": { fontFamily: "var(--mono)", fontSize: "12.5px", lineHeight: "21px" },
  ".cm-content": { padding: "10px 0", caretColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "transparent", border: "0", color: "var(--faint)", minWidth: "38px" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--accent-weak)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused": { outline: "none" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--selection)" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--text)", border: "1px solid var(--line)", borderRadius: "8px", boxShadow: "var(--shadow)" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-completionDetail": { color: "var(--faint)", fontStyle: "normal", marginLeft: "8px" },
  "li[aria-selected] .cm-completionDetail": { color: "inherit" },
  ".cm-panels": { backgroundColor: "var(--surface)", color: "var(--text)" },
  ".cm-matchingBracket": { backgroundColor: "var(--selection)", outline: "none" },
  ".cm-placeholder": { color: "var(--faint)" },
});

export interface EditorProps {
  text: string;
  onChange: (text: string) => void;
  onCursor: (place: number) => void;
  onRun: () => void;
  onView: (view: EditorView | null) => void;
}

export function Editor(props: EditorProps) {
  const box = useRef<HTMLDivElement>(null);
  const latest = useRef(props);
  latest.current = props;
  useEffect(() => {
    const view = new EditorView({
      parent: box.current!,
      state: EditorState.create({ doc: props.text, extensions: extensions(() => latest.current) }),
    });
    props.onView(view);
    return () => {
      latest.current.onView(null);
      view.destroy();
    };
  }, []);
  return <div class="editor" ref={box} />;
}

function extensions(props: () => EditorProps): Extension[] {
  const run = () => {
    props().onRun();
    return true;
  };
  return [
    EditorView.cspNonce.of(nonce),
    lineNumbers(),
    history(),
    drawSelection(),
    bracketMatching(),
    closeBrackets(),
    highlightActiveLine(),
    highlightActiveLineGutter(),
    highlightSelectionMatches(),
    autocompletion({ override: [complete], icons: false }),
    linter(faults, { delay: 300 }),
    placeholder("query name($parameter: String) {\n  match { … }\n  return { … }\n}"),
    ...queryLanguage,
    look,
    EditorView.contentAttributes.of({ "aria-label": "Query text" }),
    EditorView.lineWrapping,
    keymap.of([
      { key: "Mod-Enter", run },
      { key: "F8", run: nextDiagnostic },
      { key: "Escape", run: (view) => temporarilySetTabFocusMode(view) },
      ...closeBracketsKeymap,
      ...completionKeymap,
      ...lintKeymap,
      ...searchKeymap,
      ...historyKeymap,
      indentWithTab,
      ...defaultKeymap,
    ]),
    EditorView.domEventHandlers({ beforeinput: replaceSelection }),
    EditorView.updateListener.of((update) => {
      if (update.docChanged) props().onChange(update.state.doc.toString());
      if (update.docChanged || update.selectionSet) props().onCursor(update.state.selection.main.head);
    }),
  ];
}

/**
 * Replace a selection by typed text without the browser's help: Chromium would give the new text the style of the
 * old one in a `style` attribute, which the policy of the page refuses. Composed text cannot be taken over.
 */
function replaceSelection(event: InputEvent, view: EditorView): boolean {
  const text = event.data ?? "";
  const { main } = view.state.selection;
  if (event.inputType !== "insertText" || !event.cancelable || text === "" || main.empty) return false;
  const insert = () => view.state.update(view.state.replaceSelection(text), { userEvent: "input.type", scrollIntoView: true });
  const taken = view.state.facet(EditorView.inputHandler).some((handle) => handle(view, main.from, main.to, text, insert));
  if (!taken) view.dispatch(insert());
  return true;
}

/** Ask the server what is wrong with the text. */
async function faults(view: EditorView): Promise<Diagnostic[]> {
  const text = view.state.doc.toString();
  if (text.trim() === "" || text.length > 1_000_000) return [];
  try {
    const found = await api.lint(text);
    const wrong: Diagnostic[] = [];
    for (const each of found.results) if (each.error !== undefined) wrong.push(shown(text, "error", each.error, each.diagnostic));
    for (const each of found.findings) wrong.push(shown(text, each.severity, each.message, each.diagnostic));
    return wrong;
  } catch (error) {
    // Without the server there is nothing to underline; running it says why.
    if (error instanceof ApiError) return [];
    throw error;
  }
}

function shown(text: string, severity: string, message: string, fault?: Fault): Diagnostic {
  const from = fault === undefined ? 0 : unitsAt(text, fault.span.start);
  const to = fault === undefined ? Math.min(1, text.length) : Math.max(from + 1, unitsAt(text, fault.span.end));
  const hint = fault?.hint === undefined ? "" : ` — ${fault.hint}`;
  // The rule stands below the message.
  const words = fault?.rule === undefined ? message : message.replace(/^\w+ error: /, "").replace(`${fault.rule}: `, "");
  const level = severity === "error" ? "error" : severity === "warning" ? "warning" : "info";
  return { from: Math.min(from, text.length), to: Math.min(to, text.length), severity: level, message: words + hint, ...(fault?.rule === undefined ? {} : { source: fault.rule }) };
}
