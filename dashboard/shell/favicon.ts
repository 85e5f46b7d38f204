import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { buildsQuery, inboxQuery } from "../api/queries.ts";

const wave = "M3 20c4 0 4-5 8-5s4 5 8 5 4-5 8-5 2 1 3 2M3 12c4 0 4-5 8-5s4 5 8 5 4-5 8-5 2 1 3 2";
const colours = { calm: "#4cc9e0", run: "#5b9bff", wait: "#f5b94d", bad: "#ff6a5e" };

function iconOf(colour: string, isMarked: boolean): string {
  const mark = isMarked ? `<circle cx="25" cy="25" r="7" fill="${colour}"/>` : "";
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#0d1117"/><path d="${wave}" fill="none" stroke="${colour}" stroke-width="3" stroke-linecap="round"/>${mark}</svg>`;
  return `data:image/svg+xml,${encodeURIComponent(svg)}`;
}

/** Shows in the tab's icon and title whether something needs the reader, or runs. */
export function useTabState(): void {
  const inbox = useQuery(inboxQuery).data ?? [];
  const builds = useQuery(buildsQuery()).data ?? [];
  const asked = inbox.filter(({ kind }) => kind !== "failed").length;
  const isFailed = inbox.some(({ kind }) => kind === "failed");
  const isRunning = builds.some(({ status }) => status === "running");
  const state = asked > 0 ? "wait" : isRunning ? "run" : isFailed ? "bad" : "calm";
  useEffect(() => {
    const link = document.querySelector<HTMLLinkElement>("link[rel=icon]");
    if (link !== null) link.href = iconOf(colours[state], state !== "calm");
    document.title = document.title.replace(/^(?:\(\d+\) )?/, asked > 0 ? `(${asked}) ` : "");
  });
}
