import type { BuildEventName } from "./events.ts";

/** The events that a person may wait for, and that a plan's `notify` sends on. */
export const noticedEvents = [
  "project/approval.requested",
  "agent/question.asked",
  "project/wave.blocked",
  "project/schedule.paused",
  "project/build.completed",
  "project/build.failed",
  "project/build.cancelled",
] as const satisfies readonly BuildEventName[];
export type NoticedEvent = (typeof noticedEvents)[number];

/** The content of a notice, before the dashboard's address is known. */
export interface NoticeFacts {
  /** One for each event and address; the same in every try. */
  readonly id: string;
  readonly event: NoticedEvent;
  readonly at: Date;
  readonly data: Readonly<Record<string, unknown>>;
  /** For people: what happened, in one line. */
  readonly title: string;
  /** Why, and the command to type next. */
  readonly text: string;
}

/** A notice about one event. */
export interface Notice extends NoticeFacts {
  /** The page of the dashboard where a person decides or reads on; null if no server shows it. */
  readonly url: string | null;
}

/** Returns the path of the dashboard's page about an event. */
export function pagePathOf({ event, data }: Pick<NoticeFacts, "event" | "data">): string {
  const build = `/builds/${encodeURIComponent(String(data.buildId))}`;
  if (event === "agent/question.asked" && typeof data.taskKey === "string")
    return `${build}?task=${encodeURIComponent(data.taskKey)}`;
  return build;
}

const longestReason = 600;

/** Says an event in words, for chats and phones. */
export function wordsOf(
  event: NoticedEvent,
  facts: {
    readonly project: string;
    readonly buildId: string;
    readonly waveNumber?: number;
    readonly role?: string;
    readonly name?: string;
    readonly scheduleId?: string;
    readonly reason?: string;
  },
): Pick<NoticeFacts, "title" | "text"> {
  const { project, buildId, waveNumber } = facts;
  const reason = (facts.reason ?? "").slice(0, longestReason);
  const about = (command: string): string => [reason, command].filter((part) => part !== "").join("\n");
  switch (event) {
    case "project/approval.requested":
      return {
        title: `${project}: wave ${waveNumber} is waiting for your approval`,
        text: about(`wavesmith approve ${buildId}, or: wavesmith reject ${buildId}`),
      };
    case "agent/question.asked":
      return {
        title: `${project}: ${facts.role ?? "an agent"} asks you something`,
        text: about(`wavesmith answer ${buildId}`),
      };
    case "project/wave.blocked":
      return { title: `${project}: wave ${waveNumber} is blocked`, text: about(`wavesmith status ${buildId}`) };
    case "project/schedule.paused":
      return {
        title: `${project}: the schedule ${facts.name} is paused`,
        text: about(`wavesmith schedules resume ${facts.scheduleId}`),
      };
    case "project/build.completed":
      return { title: `${project}: the build completed`, text: about(`wavesmith diff ${buildId}`) };
    case "project/build.failed":
      return { title: `${project}: the build failed`, text: about(`wavesmith status ${buildId}`) };
    case "project/build.cancelled":
      return { title: `${project}: the build was cancelled`, text: about(`wavesmith retry ${buildId}`) };
  }
}
