import type { Command } from "commander";
import type { AddCommand } from "./add-command.ts";

/** Adds the commands that look after a server's data. */
export function addOperationsCommands(program: Command, command: AddCommand): void {
  command(
    program,
    "backup <file>",
    "write the database and repositories to one file, while builds continue",
    async (context, [file]) => {
      const { backup } = await import("./commands/backup.ts");
      return backup(context, file);
    },
  );
  command(program, "restore <file>", "make a new data directory from a backup", async (context, [file]) => {
    const { restore } = await import("./commands/backup.ts");
    return restore(context, file);
  });
  const github = program.command("github").description("sign in to GitHub, for plans that deliver there");
  command(github, "setup", "sign in with a token, or as a GitHub App", async (context, _, options) => {
    const { githubSetup } = await import("./commands/github.ts");
    return githubSetup(context, { appId: options.app, keyFile: options.key });
  })
    .option("--app <id>", "the id of a GitHub App, with --key")
    .option("--key <file>", "the App's private key (PEM)");
  command(github, "connect", "create a GitHub App in the browser and sign in as it", async (context, _, options) => {
    const { githubConnect } = await import("./commands/github.ts");
    return githubConnect(context, { organization: options.organization });
  }).option("--organization <name>", "the organisation that owns the App; default: your own account");
  command(program, "gc", "remove what is kept longer than the settings say", async (context, _, options) => {
    const { gc } = await import("./commands/gc.ts");
    return gc(context, { dryRun: options.dryRun === true });
  }).option("--dry-run", "show what would be removed, with its size");
}
