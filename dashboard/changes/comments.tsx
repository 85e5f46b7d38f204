import { useQuery } from "@tanstack/react-query";
import { type FormEvent, type KeyboardEvent, useState } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { api, dataOf } from "../api/request.ts";
import { useAction } from "../api/use-action.ts";
import { plainText } from "../parts/plain-text.ts";
import { Failure } from "../parts/states.tsx";
import { StatusBadge } from "../parts/status.tsx";
import { Ago } from "../parts/times.tsx";

/** A place in the new version of a file; without lines it is the whole file. */
export interface Place {
  readonly file: string;
  readonly lines: string;
}

/** People's comments on a build, and their outcomes. */
export function useComments(buildId: string): readonly ApiType<"PersonsFindingRow">[] {
  const comments = useQuery({
    queryKey: ["build", buildId, "comments"],
    queryFn: async ({ signal }) => {
      const params = { path: { id: buildId } };
      return (await dataOf(api.GET("/api/v1/builds/{id}/findings", { params, signal }))).items;
    },
  });
  return comments.data ?? [];
}

interface CommentFormProps {
  readonly buildId: string;
  readonly place: Place;
  /** The task whose next attempt gets the comment; undefined: the wave's next fix does. */
  readonly task: string | undefined;
  readonly onClose: () => void;
}

/** Asks for a comment on some lines of a file. Ctrl Enter sends it. */
export function CommentForm({ buildId, place, task, onClose }: CommentFormProps) {
  const [text, setText] = useState("");
  const [lines, setLines] = useState(place.lines);
  const range = rangeOf(lines);
  const comment = useAction(["build"], () => {
    const body = { ...range, text: text.trim(), by: "the dashboard", file: place.file };
    const params = { path: { id: buildId } };
    return dataOf(
      api.POST("/api/v1/builds/{id}/findings", { params, body: { ...body, ...(task === undefined ? {} : { task }) } }),
    );
  });
  const canSend = text.trim() !== "" && range !== null && !comment.isPending;
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (canSend) comment.mutate(undefined, { onSuccess: onClose });
  };
  const press = (event: KeyboardEvent<HTMLFormElement>): void => {
    if (event.key === "Escape") onClose();
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
  };
  return (
    <form className="comment finding-beside stack" aria-label="Comment" onSubmit={submit} onKeyDown={press}>
      <div className="row wrap small">
        <LinesField lines={lines} isWrong={range === null} onChange={setLines} />
        <span className="mono tiny faint clip">{place.file}</span>
      </div>
      <textarea
        className="field"
        aria-label="What should change"
        placeholder="What should change"
        // biome-ignore lint/a11y/noAutofocus: the reader has just asked for this field
        autoFocus
        value={text}
        onChange={({ target }) => setText(target.value)}
      />
      {range === null && <div className="small removed">Give a line, such as 12, or the first and last: 12-15.</div>}
      <Failure error={comment.error} />
      <div className="row wrap">
        <span className="tiny faint grow">
          {task === undefined ? "It goes to the wave's next fix." : `It goes to the next attempt of ${task}.`}
        </span>
        <button type="button" className="button" onClick={onClose}>
          Discard
        </button>
        <button type="submit" className="button primary" disabled={!canSend}>
          Comment
        </button>
      </div>
    </form>
  );
}

interface LinesFieldProps {
  readonly lines: string;
  readonly isWrong: boolean;
  readonly onChange: (lines: string) => void;
}

function LinesField({ lines, isWrong, onChange }: LinesFieldProps) {
  return (
    <label className="row soft">
      {lines.includes("-") ? "Lines" : "Line"}
      <input
        className="field line-field"
        inputMode="numeric"
        placeholder="all"
        aria-invalid={isWrong}
        value={lines}
        onChange={({ target }) => onChange(target.value)}
      />
    </label>
  );
}

/** Reads `12` or `12-15`, or an empty text for no line; null for anything else. */
function rangeOf(text: string): { line?: number; endLine?: number } | null {
  if (text.trim() === "") return {};
  const [, first, last] = /^\s*([1-9]\d{0,6})(?:\s*[-–]\s*([1-9]\d{0,6}))?\s*$/.exec(text) ?? [];
  if (first === undefined || (last !== undefined && Number(last) < Number(first))) return null;
  return { line: Number(first), ...(last === undefined ? {} : { endLine: Number(last) }) };
}

const badges: Readonly<Record<ApiType<"PersonsFindingRow">["state"], string>> = {
  open: "waiting",
  given: "fixing",
  resolved: "passed",
  superseded: "idle",
};

/** A person's comment and its outcome. */
export function CommentBeside({ comment }: { readonly comment: ApiType<"PersonsFindingRow"> }) {
  const { by, text, line, endLine, state, outcome, createdAt } = comment;
  return (
    <div className="comment finding-beside">
      <div className="row wrap tiny">
        <strong>{by}</strong>
        <span className="faint">
          {line !== null && `line ${endLine === null ? line : `${line}-${endLine}`} · `}
          <Ago time={createdAt} />
        </span>
        <span className="grow" />
        <StatusBadge status={badges[state]} label={outcome} />
      </div>
      <div className="small finding-text">{plainText(text)}</div>
    </div>
  );
}
