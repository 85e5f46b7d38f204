import type { ApiType } from "../../src/client/client.ts";

/** How far the work of a wave or a build is on its way to main. */
export type RequestState = "merged" | "open" | "waiting" | "blocked" | "closed";

const waveStates: Readonly<Record<string, RequestState>> = {
  passed: "merged",
  waiting: "waiting",
  blocked: "blocked",
  failed: "closed",
  cancelled: "closed",
};
const buildStates: Readonly<Partial<Record<ApiType<"Build">["status"], RequestState>>> = {
  completed: "merged",
  waiting: "waiting",
  failed: "blocked",
  cancelled: "closed",
};

/** Returns the state of a whole build's request. */
export const buildRequestState = (status: ApiType<"Build">["status"]): RequestState => buildStates[status] ?? "open";

/** Returns the state of a build's request, or of one of its waves'. */
export function requestState({ status, waves }: ApiType<"Build">, wave: number | undefined): RequestState {
  if (wave === undefined) return buildRequestState(status);
  return waveStates[waves.find(({ number }) => number === wave)?.status ?? ""] ?? "open";
}

/** The state in words, and the status whose colour it has. */
export const requestWords: Readonly<Record<RequestState, { readonly label: string; readonly status: string }>> = {
  merged: { label: "on main", status: "passed" },
  open: { label: "in progress", status: "running" },
  waiting: { label: "waiting for a person", status: "waiting" },
  blocked: { label: "blocked", status: "failed" },
  closed: { label: "closed", status: "cancelled" },
};
