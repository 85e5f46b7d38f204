import type { EventData } from "../../domain/events/events.ts";
import { liveWaveStatuses } from "../../domain/status.ts";
import type { Ports } from "../port.ts";
import { addFinding, giveToFixer } from "./give-to-fixer.ts";
import { findNote, insertNote } from "./origin-note.ts";
import { recheckPullRequests } from "./recheck-pull-requests.ts";

const longestText = 20_000;

/**
 * Gives a comment on a line of a pull request to the fixer of the current wave. A build that has
 * ended stores it until a review requests changes. Returns what was done, in words.
 */
export const takeForgeComment = (ports: Ports, made: EventData<"forge/comment.made">): Promise<string> =>
  ports.store.transaction("take-finding", async (transaction) => {
    const { origin, by, file, line } = made;
    const text = made.text.trim().slice(0, longestText);
    const build = await transaction.lockBuild(made.buildId);
    if (text === "" || build.status === "cancelled") return "there is nothing to fix";
    const finding = { origin, by, file, line, text, sha: null, log: null };
    const live = await transaction.waves.find({ buildId: build.id, status: liveWaveStatuses });
    if (live !== null) return giveToFixer({ transaction, ports, build, finding });
    await addFinding({ transaction, ports, build, finding }, build, null);
    return "it is waiting for a review that asks for changes, or for the next wave";
  });

/**
 * Handles a review. If it requests changes, it goes to the fixer with the comments that are
 * waiting.
 */
export const takeReview = (ports: Ports, review: EventData<"forge/review.submitted">): Promise<string> =>
  ports.store.transaction("take-review", async (transaction) => {
    const { origin, by, sha } = review;
    const { projectId } = await transaction.builds.get({ id: review.buildId });
    await transaction.lockProject(projectId);
    const build = await transaction.lockBuild(review.buildId);
    await recheckPullRequests(transaction, ports, { buildId: build.id });
    if (review.state === "approved") return "the delivery looks at the approval";
    const before = await findNote(transaction, origin);
    if (before !== null) return before;
    const text = `A reviewer asked for changes. ${review.text.trim()}`.trim().slice(0, longestText);
    const finding = { origin, by, sha, text, file: null, line: null, log: null };
    const answer = await giveToFixer({ transaction, ports, build, finding });
    await insertNote(transaction, ports, build, { origin, event: "forge/review.submitted", answer });
    return answer;
  });

/**
 * Follows a thread: drops the findings of a resolved thread, and restores them if it is unresolved.
 */
export const takeThread = (ports: Ports, thread: EventData<"forge/thread.settled">): Promise<string> =>
  ports.store.transaction("take-thread", async (transaction) => {
    const { buildId, comments, resolved } = thread;
    const where = { buildId, origin: [...comments] };
    const changed = resolved
      ? await transaction.comments.update(
          { ...where, state: "open" },
          { state: "superseded", settledAt: ports.clock.now() },
        )
      : await transaction.comments.update({ ...where, state: "superseded" }, { state: "open", settledAt: null });
    return `${changed.length} findings follow the thread`;
  });

/** Makes the delivery check a pull request that a person closed or merged. */
export const takeClosedRequest = ({ store, ...ports }: Ports, buildId: string): Promise<void> =>
  store.transaction("take-closed", (transaction) => recheckPullRequests(transaction, ports, { buildId }));
