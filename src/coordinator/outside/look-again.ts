import type { Store } from "../../store/port.ts";
import type { Ports } from "../port.ts";

/**
 * Lets the delivery look at the open requests of a build or project now: something changed at the
 * forge, or in what their text says.
 */
export async function lookAgain(
  { pullRequests }: Pick<Store, "pullRequests">,
  { clock }: Pick<Ports, "clock">,
  of: { readonly buildId: string } | { readonly projectId: string },
): Promise<void> {
  await pullRequests.update({ ...of, status: "open" }, { nextAt: clock.now() });
}
