import type { Store } from "../../store/port.ts";
import type { Ports } from "../port.ts";

/**
 * Makes the open pull requests of a build or project due now, because something changed at the
 * forge or in what their text says.
 */
export async function recheckPullRequests(
  { pullRequests }: Pick<Store, "pullRequests">,
  { clock }: Pick<Ports, "clock">,
  of: { readonly buildId: string } | { readonly projectId: string },
): Promise<void> {
  await pullRequests.update({ ...of, status: "open" }, { nextAt: clock.now() });
}
