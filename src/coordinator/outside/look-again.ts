import type { StoreTransaction } from "../../store/port.ts";
import type { Ports } from "../port.ts";

/** Lets the delivery look at a build's open requests now: something changed at the forge. */
export async function lookAgain(
  transaction: StoreTransaction,
  { clock }: Pick<Ports, "clock">,
  buildId: string,
): Promise<void> {
  await transaction.pullRequests.update({ buildId, status: "open" }, { nextAt: clock.now() });
}
