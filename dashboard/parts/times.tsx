import { useEffect, useState } from "react";

const beats = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | null = null;

/** The time now, in milliseconds; one clock for the whole page, once a second. */
export function useNow(isMoving = true): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (!isMoving) return;
    const beat = (): void => setNow(Date.now());
    beats.add(beat);
    timer ??= setInterval(() => {
      for (const one of beats) one();
    }, 1_000);
    return () => {
      beats.delete(beat);
      if (beats.size === 0 && timer !== null) {
        clearInterval(timer);
        timer = null;
      }
    };
  }, [isMoving]);
  return now;
}

/** `850 ms`, `4.2 s`, `3 min`, `3 min 5 s`, `2 h 10 min`, `3 d`. */
export function durationText(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  const seconds = ms / 1_000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return withRest(`${minutes} min`, Math.floor(seconds % 60), "s");
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? withRest(`${hours} h`, minutes % 60, "min") : `${Math.floor(hours / 24)} d`;
}

const withRest = (whole: string, rest: number, unit: string): string =>
  rest === 0 ? whole : `${whole} ${rest} ${unit}`;

function agoText(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1_000));
  if (seconds < 5) return "just now";
  if (seconds < 60) return `${seconds} s ago`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ago`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ago` : `${Math.floor(hours / 24)} days ago`;
}

const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

/** How long ago something was; the exact time, in the reader's zone, on hover. */
export function Ago({ time }: { readonly time: string }) {
  const now = useNow();
  const date = new Date(time);
  return (
    <time className="num" dateTime={time} title={exact.format(date)}>
      {agoText(now - date.getTime())}
    </time>
  );
}

/** How long something took, or takes so far. */
export function Took({ from, to }: { readonly from: string | null; readonly to: string | null }) {
  const now = useNow(from !== null && to === null);
  if (from === null) return <span className="faint">–</span>;
  const end = to === null ? now : new Date(to).getTime();
  return <span className="num">{durationText(Math.max(0, end - new Date(from).getTime()))}</span>;
}

/** The time left until a deadline. */
export function Left({ until }: { readonly until: string }) {
  const now = useNow();
  const ms = new Date(until).getTime() - now;
  return <span className="num">{ms <= 0 ? "now" : `in ${durationText(Math.ceil(ms / 1_000) * 1_000)}`}</span>;
}
