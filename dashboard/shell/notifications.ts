import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { inboxQuery } from "../api/queries.ts";

const key = "wavesmith-notifications";

export const areNotificationsOn = (): boolean =>
  localStorage.getItem(key) === "on" && typeof Notification !== "undefined" && Notification.permission === "granted";

export const areNotificationsRefused = (): boolean =>
  typeof Notification === "undefined" || Notification.permission === "denied";

/**
 * Turns desktop notifications on or off; the browser may ask the reader. Returns whether they are
 * on.
 */
export async function setNotifications(wanted: boolean): Promise<boolean> {
  if (wanted && typeof Notification !== "undefined") await Notification.requestPermission();
  localStorage.setItem(key, wanted ? "on" : "off");
  return areNotificationsOn();
}

/** Shows a desktop notification when something new needs the reader and this page is hidden. */
export function useNotifications(): void {
  const { data } = useQuery(inboxQuery);
  const known = useRef<ReadonlySet<string> | null>(null);
  useEffect(() => {
    if (data === undefined) return;
    const present = new Map(data.map((item) => [`${item.kind}:${item.buildId}:${item.question ?? item.wave}`, item]));
    if (known.current !== null && document.hidden && areNotificationsOn()) {
      for (const [id, item] of present) {
        if (known.current.has(id)) continue;
        const body = item.text ?? item.reason ?? item.phase;
        new Notification(`${item.project} ${item.kind === "failed" ? "failed" : "needs you"}`, { body, tag: id });
      }
    }
    known.current = new Set(present.keys());
  }, [data]);
}
