import { type LookupAddress, lookup } from "node:dns";
import type { LookupFunction } from "node:net";
import { itemAt } from "../../domain/known.ts";
import { kindOfAddress } from "./addresses.ts";

/**
 * Returns a lookup for one connection that fails when a name has an address that is not public.
 * The connection goes to the addresses that were checked, so a second answer changes nothing.
 */
export const publicLookup =
  (refuse: (address: string) => Error): LookupFunction =>
  (host, options, done) => {
    lookup(host, { ...options, all: true }, (error, addresses: LookupAddress[]) => {
      const inner = addresses?.find(({ address }) => kindOfAddress(address) !== "public");
      if (error !== null) done(error, "", 0);
      else if (inner !== undefined) done(refuse(inner.address), "", 0);
      else if (options.all === true) done(null, addresses);
      else done(null, itemAt(addresses, 0).address, itemAt(addresses, 0).family);
    });
  };
