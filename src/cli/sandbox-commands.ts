import type { Command } from "commander";
import type { AddCommand } from "./add-command.ts";

/** Adds `sandbox` and its commands. */
export function addSandboxCommands(program: Command, command: AddCommand): void {
  const sandbox = program.command("sandbox").description("manage the sandboxes of projects");
  command(sandbox, "ls", "list sandboxes", async (context) => {
    const { sandboxList } = await import("./commands/sandbox.ts");
    return sandboxList(context);
  });
  command(
    sandbox,
    "exec <project> <command...>",
    "run a command in a project's sandbox: exec PROJECT -- ls -l",
    async (context, [project, ...argv]) => {
      const { sandboxExec } = await import("./commands/sandbox-exec.ts");
      return sandboxExec(context, project, argv);
    },
  );
  command(sandbox, "start <project>", "start a project's sandbox", async (context, [project]) => {
    const { sandboxStart } = await import("./commands/sandbox.ts");
    return sandboxStart(context, project);
  });
  command(sandbox, "stop <project>", "stop a project's sandbox and keep its volume", async (context, [project]) => {
    const { sandboxStop } = await import("./commands/sandbox.ts");
    return sandboxStop(context, project);
  });
  command(sandbox, "rm <project>", "remove a project's sandbox", async (context, [project], options) => {
    const { sandboxRemove } = await import("./commands/sandbox.ts");
    return sandboxRemove(context, project, { volume: options.volume === true });
  }).option("--volume", "also delete its volume");
  command(
    sandbox,
    "snapshot [project]",
    "take a snapshot of a project's volume",
    async (context, [project], options) => {
      const { sandboxSnapshot } = await import("./commands/sandbox-snapshot.ts");
      return sandboxSnapshot(context, project, options);
    },
  )
    .option("--list", "list the snapshots of one project or all")
    .option("--format <name>", "tar.zst or tar.gz (default: tar.zst if available)");
  command(
    sandbox,
    "restore <project> [snapshot]",
    "replace a project's volume with a snapshot (default: the latest)",
    async (context, [project, id]) => {
      const { sandboxRestore } = await import("./commands/sandbox-snapshot.ts");
      return sandboxRestore(context, project, id);
    },
  );
  const image = sandbox.command("image").description("manage the image of Docker sandboxes");
  command(image, "build", "build the image that --sandbox docker starts", async (context, _, options) => {
    const { sandboxImageBuild } = await import("./commands/sandbox-image.ts");
    return sandboxImageBuild(context, options);
  })
    .option("--base <image>", "Debian or Ubuntu base image (default: node:20-bookworm-slim)")
    .option("--ca <folder>", "PEM certificates for everything in the image to trust")
    .option("--chromium", "include a browser (about 350 MB)");
}

/**
 * Inserts `--` before the command of `sandbox exec PROJECT COMMAND…`, because options after it
 * belong to that command and ours come before it.
 */
export function withCommandApart(program: Command, words: readonly string[]): string[] {
  let at = 0;
  for (const expected of ["sandbox", "exec", null]) {
    at = afterOptions(program, words, at);
    if (words[at] === undefined || (expected !== null && words[at] !== expected)) return [...words];
    at += 1;
  }
  at = afterOptions(program, words, at);
  const next = words[at];
  if (next === undefined || ["--", "--help", "-h"].includes(next)) return [...words];
  return [...words.slice(0, at), "--", ...words.slice(at)];
}

/** Returns the first index from `at` on that holds no global option. */
function afterOptions(program: Command, words: readonly string[], at: number): number {
  const word = words[at] ?? "";
  const found = program.options.find(({ long }) => word === long || word.startsWith(`${long}=`));
  if (found === undefined || found.long === "--version") return at;
  return afterOptions(program, words, word === found.long && found.required ? at + 2 : at + 1);
}
