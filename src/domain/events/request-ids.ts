import { type BuildId, derivedId } from "../ids.ts";

/**
 * Derives a build's id from the event that requested it (W13), so that a repeated event starts
 * nothing.
 */
export const buildIdForEvent = (eventId: string): BuildId => derivedId("build", requestIdOf(eventId));

/**
 * Returns the id for sending a lost request again. It differs because repeated ids are dropped
 * (W13).
 */
export const repeatedRequestId = (requestId: string, epoch: number): string => `again:${epoch}:${requestId}`;
/** Returns the id under which a request was first sent. */
export const requestIdOf = (eventId: string): string => /^again:\d+:(.+)$/s.exec(eventId)?.[1] ?? eventId;
