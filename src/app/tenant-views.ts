import { defaultTenant } from "../coordinator/build/request/project.ts";
import type { ServedApp, ServedTenant } from "../server/port.ts";
import type { Database } from "../store/connection/connection.ts";
import { createEventFeed } from "../store/event-feed.ts";
import { createStore } from "../store/store.ts";

interface ViewOptions {
  readonly database: Database;
  readonly warn: (message: string) => void;
}

/** Returns what makes the app as a tenant's requests see it; each tenant's is made once. */
export function tenantViews(app: () => ServedApp, { database, warn }: ViewOptions): ServedApp["forTenant"] {
  const views = new Map<string, ServedApp>();
  return async (tenant: ServedTenant) => {
    const present = views.get(tenant.tenantId);
    if (present !== undefined) return present;
    const isDefault = tenant.tenant === defaultTenant;
    const pool = await database.poolOfTenant(tenant.tenantId, isDefault);
    const { ports, feed } = app();
    const view: ServedApp = {
      ...app(),
      tenant,
      ports: {
        ...ports,
        store: createStore(pool),
        seesAllTenants: false,
        // The secrets of this machine are the default tenant's.
        eventSecrets: isDefault ? ports.eventSecrets : [],
      },
      feed: { ...feed, read: createEventFeed(pool, warn).read },
    };
    views.set(tenant.tenantId, view);
    return view;
  };
}
