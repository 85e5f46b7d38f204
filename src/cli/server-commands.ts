import type { Command } from "commander";
import type { AddCommand } from "./add-command.ts";

/** Adds the commands for those who run a server. */
export function addServerCommands(program: Command, command: AddCommand): void {
  command(
    program,
    "open [build]",
    "print a link that signs your browser in to the dashboard",
    async (context, [build]) => {
      const { openDashboard } = await import("./commands/open.ts");
      return openDashboard(context, build);
    },
  );
  const keys = program.command("keys").description("manage the keys of the API");
  command(keys, "list", "list the keys", async (context, _, options) => {
    const { listApiKeys } = await import("./commands/keys.ts");
    return listApiKeys(context, options);
  }).option("--tenant <name>", "of this tenant (default: default)");
  command(keys, "create <name>", "create a key and print it, once", async (context, [name], options) => {
    const { createApiKey } = await import("./commands/keys.ts");
    return createApiKey(context, name, options);
  })
    .option("--scope <scope>", "what it may do: read, build or admin (default: build)")
    .option("--expires <time>", "how long it is valid, such as 12h or 90d (default: until it is revoked)")
    .option("--tenant <name>", "for this tenant; a new name makes a new tenant (default: default)");
  command(keys, "revoke <key>", "revoke a key by its id", async (context, [id], options) => {
    const { revokeApiKey } = await import("./commands/keys.ts");
    return revokeApiKey(context, id, options);
  }).option("--tenant <name>", "of this tenant (default: default)");
  command(program, "settings", "show the settings and where each came from", async (context, _, options) =>
    (await import("./commands/settings.ts")).printSettings(context, { all: options.all === true }),
  ).option("--all", "also those that have their default values");
  const tenantsCommand = command(
    program,
    "tenants",
    "list the tenants, with their limits and what they use",
    async (context) => (await import("./commands/tenants.ts")).printTenants(context),
  );
  command(tenantsCommand, "limit <name>", "set limits of a tenant", async (context, [name], options) =>
    (await import("./commands/tenants.ts")).setTenantLimits(context, name, options),
  )
    .option("--builds <number>", "unfinished builds, or `none`, or `default` for what the settings say")
    .option("--tasks <number>", "tasks that run at once")
    .option("--sandboxes <number>", "sandboxes that run at once")
    .option("--usd <amount>", "USD spent on models, in all");
  command(program, "audit", "list who asked for which change, newest first", async (context) => {
    const { audit } = await import("./commands/audit.ts");
    return audit(context);
  });
}
