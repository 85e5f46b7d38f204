import { Command, CommanderError, Option, type OptionValues } from "commander";
import { WavesmithError } from "../domain/errors.ts";
import type { AddCommand, Words } from "./add-command.ts";
import { type Context, createContext, type GlobalOptions } from "./context.ts";
import { addOperationsCommands } from "./operations-commands.ts";
import { exit } from "./output/exit-codes.ts";
import type { Output } from "./output/output.ts";
import { driverChoices } from "./parts.ts";
import { addSandboxCommands } from "./sandbox-commands.ts";
import { addScheduleCommands } from "./schedule-commands.ts";
import { addServerCommands } from "./server-commands.ts";
import { addTalkCommands } from "./talk-commands.ts";

export interface ProgramOptions {
  readonly out: Output;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly version: string;
  /** Receives the exit code of the command. */
  readonly done: (code: number) => void;
}

/** Creates the command line. The code of a command is loaded when it is called. */
export function createProgram(given: ProgramOptions): Command {
  const { out } = given;
  const program = new Command("wavesmith");
  program
    .description("Builds software with many agents in parallel, in waves that must pass gates.")
    .version(given.version)
    .exitOverride()
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => out.raw(text),
      writeErr: (text) => out.rawError(text),
      outputError: (text, write) => write(text.replace(/^error: /, "wavesmith: ")),
    })
    .showHelpAfterError("  (wavesmith --help lists every command and option)")
    .option("--data <dir>", "data directory: database, repositories, volumes (default: .wavesmith)")
    .option("--project <name>", "project name (default: the plan's name)")
    .option("--sandbox <driver>", `where agents run: ${driverChoices} (default: local)`)
    .option("--engine <name>", "engine that runs the functions: embedded (default) or inngest")
    .option("--server <url>", "work on a server instead of a data directory (WAVESMITH_SERVER, with WAVESMITH_KEY)")
    .option("--json", "print JSON")
    .option("--verbose", "show the stack trace of an error");
  addCommands(program, given);
  return program;
}

function addCommands(program: Command, given: ProgramOptions): void {
  const { out, environment, done } = given;
  const command: AddCommand = (parent, usage, description, handler) =>
    parent
      .command(usage)
      .description(description)
      .showHelpAfterError(`  (${pathOf(parent)} ${usage.split(" ")[0]} --help shows its arguments and options)`)
      .action(async (...called: unknown[]) => {
        const self = called.at(-1) as Command;
        const context = createContext(self.optsWithGlobals() as GlobalOptions, environment, {
          out,
          words: wordsOf(self),
        });
        done(await handler(context, self.args as Words<typeof usage>, self.opts()));
      });

  program.commandsGroup("Build:");
  addBuildCommands(program, command);
  program.commandsGroup("Look:");
  addLookCommands(program, command);
  program.commandsGroup("Steer:");
  addSteeringCommands(program, command);
  addTalkCommands(program, command);
  program.commandsGroup("Set up:");
  addSetupCommands(program, command);
  program.helpCommand("help [command]", "show help for a command");
}

/** The words of a command line without its options, such as `approve bld_1`. */
const wordsOf = (command: Command): string[] => [...pathOf(command).split(" ").slice(1), ...command.args];

const pathOf = (command: Command): string =>
  command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`;

function addBuildCommands(program: Command, command: AddCommand): void {
  command(
    program,
    "build [plan]",
    "run a plan, or draft and run one from a brief, with a live view",
    (context, [plan], options) => startBuild(context, plan, options),
  )
    .option("--no-wait", "exit when the build ends, without serving its preview")
    .option("--detach", "run the build in the background, even after this terminal is closed")
    .addOption(new Option("--in-background").hideHelp())
    .option("--web", "show the build in the browser as well")
    .option("--demo", "use a fresh project; fall back to local-unsafe without bubblewrap")
    .option("--brief <text>", "describe what to build; a planner drafts the plan for you to review")
    .option("--include-uncommitted", "in a git repository: also start from your uncommitted work")
    .option("--ignore-uncommitted", "in a git repository: start from the last commit, without uncommitted work")
    .option("--update-source", "merge the changes of the source since the project read it")
    .option(
      "--source <source>",
      "with --brief: a folder, a git URL with an optional #ref, or empty (default: this repository)",
    )
    .option("--yes", "with --brief: run the drafted plan without review")
    .option("--budget <limits>", "with --brief: budget of the whole build, such as usd=5,tokens=2000000,wallClock=2h")
    .option("--planner-prompt <file>", "with --brief: replace the planner's prompt");

  command(
    program,
    "ci <plan>",
    "build from a CI system: wait for the end, write a report",
    async (context, [plan], options) => {
      const { ci } = await import("./commands/ci.ts");
      return ci(context, plan, { junit: options.junit });
    },
  ).option("--junit <file>", "write tasks and gates as JUnit XML, whatever the outcome");
  command(
    program,
    "resume [build]",
    "continue a build; for a finished build, reprint its summary",
    async (context, [name], options) => {
      const { resume } = await import("./commands/resume.ts");
      return resume(context, name, { wait: options.wait !== false, plan: options.plan });
    },
  )
    .option("--plan <file>", "continue with an edited plan; unchanged tasks keep their work")
    .option("--no-wait", "exit when the build ends, without serving its preview");
  command(program, "retry [build]", "start new attempts for what failed", async (context, [name], options) => {
    const { retry } = await import("./commands/retry.ts");
    const { wait, unchanged, model, agent } = options;
    return retry(context, name, { wait: wait !== false, unchanged: unchanged === true, model, agent });
  })
    .option("--model <provider:model>", "use this model for every role that uses one")
    .option("--agent <command>", "use this ACP agent, or `builtin`, for every role that uses models")
    .option("--unchanged", "after a rejection without a fixer: review the same tree again")
    .option("--no-wait", "exit when the build ends, without serving its preview");
}

/** Builds from a plan file or a brief. Fails with `usage` unless there is exactly one of them. */
async function startBuild(context: Context, plan: string | undefined, options: OptionValues): Promise<number> {
  if (options.detach === true) return (await import("./commands/detach.ts")).detach(context);
  const { brief, source, yes, budget, plannerPrompt } = options;
  const { build, buildBrief } = await import("./commands/build.ts");
  const common = {
    wait: options.wait !== false,
    demo: options.demo === true,
    web: options.web === true,
    inBackground: options.inBackground === true,
    includeUncommitted: options.includeUncommitted === true,
    ignoreUncommitted: options.ignoreUncommitted === true,
    updateSource: options.updateSource === true,
  };
  const said = { source, yes, budget, plannerPrompt };
  if (brief !== undefined && plan === undefined) return buildBrief(context, brief, { ...common, ...said });
  const alone = Object.entries(said).find(([, value]) => value !== undefined)?.[0];
  if (brief !== undefined || alone !== undefined) {
    const option = alone?.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
    const what = brief === undefined ? `--${option} needs --brief` : "a build has a plan file or a brief, not both";
    throw new WavesmithError("usage", what, { remedy: context.hints.command('build --brief "…"') });
  }
  if (plan === undefined) {
    throw new WavesmithError("usage", "build needs a plan file, or a brief", {
      remedy: `${context.hints.command("build plan.yaml")}, or ${context.hints.command('build --brief "a guestbook with…"')}`,
    });
  }
  return build(context, plan, common);
}

function addLookCommands(program: Command, command: AddCommand): void {
  command(
    program,
    "plan <plan>",
    "show a plan's waves, critical path and faults without running it",
    async (context, [file]) => {
      const { plan } = await import("./commands/plan.ts");
      return plan(context, file);
    },
  );
  command(program, "builds", "list builds, newest first", async (context) => {
    const { listBuilds } = await import("./commands/builds.ts");
    return listBuilds(context);
  });
  command(
    program,
    "status [build]",
    "show what a build has done, is doing and is waiting for (default: the latest)",
    async (context, [name]) => {
      const { status } = await import("./commands/status.ts");
      return status(context, name);
    },
  );
  command(
    program,
    "attach [build]",
    "watch a build that another process drives; Ctrl-C leaves it running",
    async (context, [name]) => {
      const { attach } = await import("./commands/attach.ts");
      return attach(context, name);
    },
  );
  command(program, "logs [build]", "print the output of agents and gates", async (context, [name], options) => {
    const { logs } = await import("./commands/logs.ts");
    return logs(context, name, options);
  })
    .option("--task <id>", "only the output of this task")
    .option("--preview", "only the output of its preview")
    .option("--follow", "keep printing until the build ends");
  command(program, "diff [build]", "show what a build, a task or a wave changed", async (context, [name], options) => {
    const { showDiff } = await import("./commands/diff.ts");
    return showDiff(context, name, options);
  })
    .option("--stat", "only the changed files, with counts of lines")
    .option("--task <id>", "only what this task changed")
    .option("--wave <number>", "only what this wave changed");
  command(
    program,
    "preview [build]",
    "show the preview of a finished or waiting build (default: the latest)",
    async (context, [name], options) => {
      const { preview } = await import("./commands/preview.ts");
      return preview(context, name, { wait: options.wait !== false });
    },
  ).option("--no-wait", "exit once it has answered");
}

function addSteeringCommands(program: Command, command: AddCommand): void {
  command(program, "cancel [build]", "cancel a build and keep its work", async (context, [name]) => {
    const { cancel } = await import("./commands/cancel.ts");
    return cancel(context, name);
  });
  command(program, "approve [build]", "approve the waiting wave or drafted plan", async (context, [name], options) => {
    const { approve } = await import("./commands/decide.ts");
    return approve(context, name, { resume: options.resume === true, wait: options.wait !== false });
  })
    .option("--resume", "then continue the build")
    .option("--no-wait", "with --resume: exit when the build ends, without serving its preview");
  command(program, "reject [build]", "reject the waiting wave or drafted plan", async (context, [name], options) => {
    const { reject } = await import("./commands/decide.ts");
    return reject(context, name, options.reason);
  }).option("--reason <text>", "what must change; a retry passes it to the fixer or the planner");
  command(
    program,
    "answer <build> [question]",
    "allow or deny an agent's request (default: the only open question)",
    async (context, [name, question], options) => {
      const { answer } = await import("./commands/answer.ts");
      return answer(context, name, question, options);
    },
  )
    .option("--allow", "allow it once")
    .option("--deny", "deny it");
  command(
    program,
    "deliver [build]",
    "put what a build made on a branch of your repository (default: the latest build)",
    async (context, [name], { branch, squash, asMe }) => {
      const { deliver } = await import("./commands/deliver.ts");
      return deliver(context, name, { branch, squash: squash === true, asMe: asMe === true });
    },
  )
    .option("--branch <name>", "the branch (default: wavesmith/ and the project's name)")
    .option("--squash", "as one commit with you as author and committer")
    .option("--as-me", "with you as committer of every commit; agents stay the authors");
  command(program, "rollback [build]", "move main back to the end of a wave", async (context, [name], options) => {
    const { rollback } = await import("./commands/rollback.ts");
    return rollback(context, name, { wave: options.wave, undo: options.undo === true });
  })
    .option("--wave <number>", "wave number; 0 is where the build began")
    .option("--undo", "undo the last rollback, unless the build has moved on since");
  command(program, "shell [build]", "open a shell in the build's sandbox", async (context, [name], options) => {
    if (options.session === true) {
      const { openSessionShell } = await import("./commands/shell-session.ts");
      return openSessionShell(context, name, options.task);
    }
    const { openShell } = await import("./commands/shell.ts");
    return openShell(context, name, options.task);
  })
    .option("--task <id>", "check out this task's last commit")
    .option("--session", "talk with the agent of its last attempt, in the agent's own session");
}

function addSetupCommands(program: Command, command: AddCommand): void {
  command(program, "init [file]", "write a starter plan (default: plan.yaml)", async (context, [file]) => {
    const { init } = await import("./commands/init.ts");
    return init(context, file);
  });
  command(
    program,
    "serve",
    "drive every project's builds, with a dashboard, an HTTP API and an endpoint for Inngest",
    async (context, _, options) => {
      const { serve } = await import("./commands/serve.ts");
      return serve(context, { port: options.port, host: options.host });
    },
  )
    .option("--port <number>", "port to listen on; 0 for any free one", "4400")
    .option("--host <address>", "address to listen on; beyond loopback it needs keys", "127.0.0.1");
  addServerCommands(program, command);
  addSandboxCommands(program, command);
  addAgentCommands(program, command);
  addOperationsCommands(program, command);
  command(
    program,
    "doctor",
    "check that this machine can build, and say how to fix what is missing",
    async (context) => {
      const { doctor } = await import("./commands/doctor.ts");
      return doctor(context);
    },
  );
  command(program, "completion <shell>", "print a completion script: bash, zsh, fish", async (context, [shell]) => {
    const { completion } = await import("./commands/completion.ts");
    return completion(context, program, shell);
  });
}

function addAgentCommands(program: Command, command: AddCommand): void {
  const notifications = command(
    program,
    "notifications",
    "show what `notify` sent, and what could not be sent",
    async (context) => (await import("./commands/notifications.ts")).listNotifications(context),
  );
  command(notifications, "replay [id]", "retry one, or all that were not sent", async (context, [id]) =>
    (await import("./commands/notifications.ts")).replayNotifications(context, id),
  );
  addScheduleCommands(program, command);
  const prices = command(program, "prices", "show which model prices are in use", async (context) => {
    const { prices } = await import("./commands/prices.ts");
    return prices(context);
  });
  command(prices, "update", "fetch newer model prices", async (context) => {
    const { updatePrices } = await import("./commands/prices.ts");
    return updatePrices(context);
  });
  const agents = command(
    program,
    "agents",
    "try the agents on this machine and say what each lacks",
    async (context) => {
      const { agents } = await import("./commands/agents.ts");
      return agents(context);
    },
  );
  command(
    agents,
    "install <name>",
    "install an agent for sandboxes: claude, codex, gemini, opencode",
    async (context, [name]) => {
      const { install } = await import("./commands/agents-install.ts");
      return install(context, name);
    },
  );
}

/** Whether commander stopped because it printed the help or the version. */
export const isHelp = (error: unknown): boolean =>
  error instanceof CommanderError && (error.exitCode === exit.ok || error.code === "commander.help");
