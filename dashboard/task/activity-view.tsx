import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef, useState } from "react";
import { Output } from "../parts/output.tsx";
import { Empty, Failure, Loading } from "../parts/states.tsx";
import { StatusDot } from "../parts/status.tsx";
import type { Entry } from "./activity.ts";
import { type FollowedActivity, useActivity } from "./use-activity.ts";

interface ActivityViewProps {
  readonly buildId: string;
  readonly task: string;
  readonly attempt: number;
}

/** An agent's activity, live. */
export function ActivityView({ buildId, task, attempt }: ActivityViewProps) {
  const followed = useActivity(buildId, task, attempt);
  return <ActivityLog followed={followed} label={`What ${task} does`} />;
}

interface ActivityLogProps {
  readonly followed: FollowedActivity;
  readonly label: string;
}

/** The output of a job so far. Only the visible rows are in the page. */
export function ActivityLog({ followed, label }: ActivityLogProps) {
  const { activity, isOver, error } = followed;
  const { entries } = activity;
  const scroller = useRef<HTMLDivElement>(null);
  const [isFollowing, setFollowing] = useState(true);
  const rows = useVirtualizer({
    count: entries.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => 22,
    overscan: 20,
  });
  useEffect(() => {
    if (isFollowing && entries.length > 0) rows.scrollToIndex(entries.length - 1, { align: "end" });
  }, [entries.length, isFollowing, rows]);
  if (error !== null) return <Failure error={error} />;
  if (entries.length === 0) return isOver ? <Empty title="It printed no output." /> : <Loading what="what it does" />;
  return (
    <div className="activity-frame">
      <div
        ref={scroller}
        className="activity"
        role="log"
        aria-label={label}
        aria-live="off"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls it
        tabIndex={0}
        onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) =>
          setFollowing(scrollHeight - scrollTop - clientHeight < 40)
        }
      >
        <div style={{ height: rows.getTotalSize(), position: "relative" }}>
          {rows.getVirtualItems().map(({ index, key, start }) => {
            const entry = entries[index];
            return (
              <div
                key={key}
                ref={rows.measureElement}
                data-index={index}
                className="activity-row"
                style={{ transform: `translateY(${start}px)` }}
              >
                {entry !== undefined && <EntryView entry={entry} />}
              </div>
            );
          })}
        </div>
      </div>
      {!isFollowing && (
        <button type="button" className="button to-end" onClick={() => setFollowing(true)}>
          {isOver ? "To the end" : "Follow"}
        </button>
      )}
    </div>
  );
}

function EntryView({ entry }: { readonly entry: Entry }) {
  switch (entry.kind) {
    case "line":
      return <div className="entry-line">{entry.text === "" ? "\u00a0" : entry.text}</div>;
    case "message":
      return <div className="entry-message">{entry.text}</div>;
    case "thought":
      return <div className="entry-thought">{entry.text}</div>;
    case "notice":
    case "session":
      return <div className="entry-notice">{entry.text}</div>;
    case "plan":
      return (
        <ul className="entry-plan">
          {entry.entries.map(({ text, status }) => (
            <li key={text} className="row">
              <StatusDot status={status === "in_progress" ? "running" : status} />
              <span>{text}</span>
            </li>
          ))}
        </ul>
      );
    case "tool":
      return (
        <details className="entry-tool">
          <summary className="row">
            <StatusDot status={entry.status === "in_progress" ? "running" : entry.status} />
            <span className="clip grow">{entry.title}</span>
          </summary>
          {entry.input !== "" && <Output text={entry.input} />}
        </details>
      );
    case "diff":
      return (
        <div className="entry-diff">
          <span className="clip grow mono">{entry.path}</span>
          <span className="added num">+{entry.added}</span> <span className="removed num">−{entry.removed}</span>
        </div>
      );
    case "permission":
      return (
        <div className="entry-notice">
          {entry.allowed ? "allowed" : "denied"}: {entry.title} <span className="faint">({entry.reason})</span>
        </div>
      );
    case "end":
      return (
        <div className="entry-notice">
          ended: {entry.end}
          {entry.text !== "" && ` (${entry.text})`}
        </div>
      );
  }
}
