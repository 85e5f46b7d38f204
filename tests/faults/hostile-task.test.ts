import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import type { BuildRow } from "../../src/store/port.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";
import { requires } from "../support/require.ts";

// W5, W8: whatever a task does to everything it can reach, the work of the others and the
// repository outside the sandbox survive.

const walledDrivers = (["local", "docker"] as const).filter((name) =>
  requires(name === "local" ? "bubblewrap" : "docker"),
);

describe("a task that does as much harm as it can", () => {
  let fixture: BuildFixture;
  afterEach(async () => {
    await fixture.close();
  });

  /** Hooks, drivers and a monitor that would leave a mark if any git ran them. */
  const plantHooks = (repository: string, mark: string): string[] => [
    `for hook in pre-commit post-commit post-checkout post-merge pre-receive update post-update reference-transaction; do
       mkdir -p ${repository}/hooks && printf '#!/bin/sh\\ntouch ${mark}\\n' > ${repository}/hooks/$hook && chmod +x ${repository}/hooks/$hook
     done`,
    `git config -f ${repository}/config core.fsmonitor 'touch ${mark}'`,
    `git config -f ${repository}/config core.hooksPath ${repository}/hooks`,
    `git config -f ${repository}/config filter.evil.clean 'touch ${mark}; cat'`,
    `git config -f ${repository}/config merge.evil.driver 'touch ${mark}'`,
  ];

  /** Moves refs and plants hooks, in its own repository and in others. */
  const meddle = (volume: string, repositories: readonly string[]): string[] => [
    "git update-ref -d HEAD; git symbolic-ref HEAD refs/heads/evil; git commit --allow-empty -qm evil",
    ...repositories.map(
      (repository) =>
        `git -C ${repository} update-ref refs/heads/main $(git rev-parse HEAD); git -C ${repository} update-ref -d HEAD`,
    ),
    ...[".git", ...repositories].flatMap((repository) => plantHooks(repository, `${volume}/cache/hooked`)),
    "echo '* filter=evil merge=evil' > .gitattributes",
  ];
  const destroy = (repositories: readonly string[]): string[] => [
    `rm -rf ${repositories.join(" ")}`,
    "rm -rf .git; echo gitdir: /nowhere > .git",
  ];
  const harmOthers = (volume: string, data: string): string[] => [
    `for tree in ../victim.* ${volume}/trees/*/victim.*; do echo evil > $tree/evil; rm -rf $tree/victim $tree/.git; done`,
    `rm -rf ${volume}/.guest ${data}/postgres* ${data}/volumes ${data}/sandboxes`,
  ];

  /** Each line is tried, and none makes its task fail. */
  const tried = (lines: readonly string[]): string =>
    lines.map((line) => `( ${line} ) > /dev/null 2>&1 || true`).join("\n");

  const plan = (harm: { first: readonly string[]; later: readonly string[] }) => ({
    limits: { maxParallelTasks: 2 },
    tasks: [
      {
        id: "victim",
        run: `echo mine > victim; touch ../../../cache/ready
while ! test -e ../../../cache/done; do sleep 0.05; done
cat victim > copy`,
        retries: 0,
      },
      {
        id: "hostile",
        run: `while ! test -e ../../../cache/ready; do sleep 0.05; done
echo work > work
${tried(harm.first)}
touch ../../../cache/done`,
        retries: 0,
      },
      {
        id: "next",
        dependsOn: ["victim", "hostile"],
        run: `cat copy work > next; rm .gitattributes\n${tried(harm.later)}`,
        retries: 0,
      },
      { id: "last", dependsOn: ["next"], run: "cp next last", retries: 0 },
    ],
  });

  it.each(walledDrivers)("harms only its own tree in a sandbox (%s)", async (sandbox) => {
    fixture = await createBuildFixture({ sandbox });
    const { dataDir } = fixture.app.config;
    const authority = fixture.app.ports.workspace.repositoryPath(fixture.projectId as never);
    const repositories = ["/workspace/repo", "/workspace/repo/.git", authority];
    const first = [...harmOthers("/workspace", dataDir), ...meddle("/workspace", repositories)];
    await holds(await fixture.build(plan({ first, later: destroy(repositories) })));
  });

  it("harms no work through the volume's repositories, even without isolation", async () => {
    fixture = await createBuildFixture({ sandbox: "local-unsafe" });
    const volume = join(fixture.app.config.dataDir, "volumes", fixture.projectId);
    const repositories = [`${volume}/repo`, `${volume}/repo/.git`];
    await holds(await fixture.build(plan({ first: meddle(volume, repositories), later: destroy(repositories) })));
  });

  /** All work is in main, no hook ran anywhere, and the refs are the ones that a build creates. */
  async function holds(build: BuildRow): Promise<void> {
    expect([build.status, build.reason]).toEqual(["completed", null]);
    const files = (await fixture.git("ls-tree", "-r", "--name-only", "main")).trim().split("\n");
    expect(files).toEqual(["copy", "last", "next", "victim", "work"]);
    expect(await fixture.git("show", "main:last")).toBe("mine\nwork\n");
    const { dataDir } = fixture.app.config;
    expect(existsSync(join(dataDir, "volumes", fixture.projectId, "cache", "hooked"))).toBe(false);
    const refs = (await fixture.git("for-each-ref", "--format=%(refname)")).trim().split("\n");
    expect(
      refs.filter((ref) => !/^refs\/(heads\/main$|heads\/wavesmith\/|tags\/wavesmith-restore\/)/.test(ref)),
    ).toEqual([]);
  }
});

describe.each(walledDrivers)("a task that attacks its peers, the guest and the gates (%s)", (sandbox) => {
  let fixture: BuildFixture;
  afterEach(async () => {
    await fixture.close();
  });

  const shared = "/workspace/cache";
  const waitFor = (name: string): string => `until test -e ${shared}/${name}; do sleep 0.05; done`;
  /** Records in its tree every attack that had an effect. */
  const attempt = (name: string, attack: string): string =>
    `if (
${attack}
) > /dev/null 2>&1; then echo ${name} >> done; fi`;
  const ofOthers = (act: string): string => `me=$(id -u); hit=1
for at in /proc/[0-9]*; do
  pid=\${at#/proc/}
  if [ "$(awk '/^Uid/ { print $2 }' $at/status)" != "$me" ] && ${act}; then hit=0; fi
done
exit $hit`;
  /** The brackets keep the search from finding itself. */
  const inCommandLines = "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -q 'word-of-the-[v]ictim'";
  const gateTrees = "$WAVESMITH_WORKSPACE/../gate-1-testing-[0-9].[0-9]";
  const stray = `for tree in ${gateTrees} $WAVESMITH_WORKSPACE/../gate-1-testing-0.0 $WAVESMITH_WORKSPACE/../gate-1-testing-0.1; do
  echo exit 0 > $tree/check.sh
done`;
  /** System calls on System V objects; `key` is the victim's shared memory. */
  const systemV = (script: string): string => `python3 - <<'END'
import ctypes, sys
kernel = ctypes.CDLL(None, use_errno=True)
key = 0x77617665
def check(result):
    if result < 0: sys.exit(1)
    return result
${script}
END`;
  const leaveMemory = systemV(`shared = check(kernel.shmget(key + 1, 4096, 0o1666))
facts = (ctypes.c_uint32 * 64)()
check(kernel.shmctl(shared, 2, facts))
facts[1] = 20999 # The owner, not the creator.
kernel.shmctl(shared, 1, facts)
check(kernel.semget(key + 1, 1, 0o1666))
check(kernel.msgget(key + 1, 0o1666))`);
  const traceOthers = (call: string): string => `python3 - <<'END'
import ctypes, os, sys
kernel = ctypes.CDLL(None, use_errno=True)
kernel.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
class Part(ctypes.Structure): _fields_ = [("at", ctypes.c_void_p), ("size", ctypes.c_size_t)]
def read_memory(pid):
    own = Part(ctypes.cast(ctypes.create_string_buffer(8), ctypes.c_void_p), 8)
    with open(f"/proc/{pid}/maps") as maps: at = int(maps.readline().split("-")[0], 16)
    return kernel.process_vm_readv(pid, ctypes.byref(own), 1, ctypes.byref(Part(at, 8)), 1, 0)
for name in filter(str.isdigit, os.listdir("/proc")):
    try:
        if os.stat(f"/proc/{name}").st_uid != os.getuid() and ${call} >= 0: sys.exit(0)
    except OSError: pass
sys.exit(1)
END`;
  const sockets = "/run/wavesmith/*.sock /proc/[0-9]*/root/run/wavesmith/*.sock";
  const cancelPeer = `hit=1; key=$(basename "$(dirname "$(cat ${shared}/result)")")
for socket in ${sockets}; do
  curl -sf -m 5 -d '{"reason":"attack","graceMs":0}' --unix-socket $socket http://guest/v1/jobs/$key/cancel && hit=0
done; exit $hit`;
  const attacks = [
    attempt("cancelled-a-peer", cancelPeer),
    attempt("traced-a-peer", traceOthers("kernel.ptrace(0x4206, int(name), None, None)")),
    attempt("attached-to-a-peer", traceOthers("kernel.ptrace(16, int(name), None, None)")),
    attempt("read-a-peers-memory", traceOthers("read_memory(int(name))")),
    attempt("took-a-peers-files", traceOthers("kernel.syscall(438, kernel.syscall(434, int(name), 0), 0, 0)")),
    attempt("reached-shared-memory", systemV("check(kernel.shmat(check(kernel.shmget(key, 0, 0)), None, 0))")),
    attempt("removed-shared-memory", `ipcrm -M ${0x77617665}`),
    attempt("renamed-the-socket", "mv /run/wavesmith/mux.sock /run/wavesmith/hidden.sock"),
    attempt("reached-the-mux", "timeout 5 socat -u OPEN:/dev/null UNIX-CONNECT:/run/wavesmith/mux.sock"),
    attempt("reached-the-guest", "curl -sf -m 5 --unix-socket /run/wavesmith/guest.sock http://guest/v1/jobs"),
    attempt("read-records", "cat /workspace/.guest/jobs/*/*"),
    attempt("killed-others", ofOthers("kill -KILL $pid")),
    attempt("read-others-environment", ofOthers("cat $at/environ")),
    attempt("saw-others-folders", ofOthers("readlink $at/cwd")),
    attempt("read-a-token", "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep -q '^WAVESMITH_MODEL_TOKEN='"),
    attempt("read-a-script", inCommandLines),
    attempt(
      "wrote-another-tree",
      "for tree in $WAVESMITH_WORKSPACE/../victim.*; do echo evil > $tree/evil && exit 0; done; exit 1",
    ),
    attempt("wrote-a-result", `echo '{"summary":"forged"}' > "$(cat ${shared}/result)"`),
    attempt("put-a-result-in-place", `r=$(cat ${shared}/result); mv "\${r%/*}" "\${r%/*}.gone"`),
    attempt("wrote-the-joined-tree", "echo evil > /workspace/repo/evil"),
  ];

  it("succeeds with none of them, and the gate reports the truth", async () => {
    fixture = await createBuildFixture({ sandbox, patienceMs: 120_000 });
    const build = await fixture.build({
      limits: { maxParallelTasks: 2 },
      agents: {
        victim: {
          runtime: "command",
          command: `: word-of-the-victim; cat > /dev/null; ${systemV("check(kernel.shmget(key, 4096, 0o1600))")}
echo "$WAVESMITH_RESULT_FILE" > ${shared}/result; touch ${shared}/ready
${waitFor("done")}; echo mine > victim; echo 'exit 1' > check.sh
echo '{"summary":"told by the victim"}' > "$WAVESMITH_RESULT_FILE"`,
        },
      },
      gates: {
        testing: {
          command: `ls -d /tmp/left /dev/shm/left 2> /dev/null | sed 's/^/found /'; for kind in shm sem msg; do tail -n +2 /proc/sysvipc/$kind | sed "s/^/found $kind /"; done
pgrep -f 'stray[-]of-hostile' > /dev/null && echo found a stray
sh check.sh`,
        },
        critic: false,
        integration: false,
        maxFixRounds: 0,
      },
      tasks: [
        { id: "victim", agent: "victim", instructions: "Write the file victim.", retries: 0 },
        {
          id: "hostile",
          retries: 0,
          run: `${waitFor("ready")}
touch work
${attacks.join("\n")}
head -c 20000000 /dev/zero > /tmp/left; mkdir -p /tmp/kept/deep; chmod 0 /tmp/kept/deep; head -c 20000000 /dev/zero > /dev/shm/left
${leaveMemory}
( ( ( setsid sh -c ': stray-of-hostile; trap "" TERM HUP; while :; do ${stray}; sleep 0.05; done' > /dev/null 2>&1 < /dev/null & ) & ) & )
touch ${shared}/done`,
          acceptance: [{ check: "! pgrep -f 'stray[-]of-hostile'" }],
        },
      ],
    });
    const { store } = fixture.app;
    const tasks = await store.tasks.list({ buildId: build.id }, { by: "position" });
    expect(tasks.map(({ key, status, summary }) => [key, status, summary])).toEqual([
      ["victim", "completed", "told by the victim"],
      ["hostile", "completed", null],
    ]);
    const [wave] = await store.waves.list({ buildId: build.id });
    const at = wave!.headSha!;
    expect(await fixture.git("ls-tree", "-r", "--name-only", at)).toBe("check.sh\nvictim\nwork\n");
    const [run] = await store.gateRuns.list({ buildId: build.id, gate: "testing" });
    expect(run).toMatchObject({ verdict: "failed", evidence: { exitCode: 1 } });
    expect((await store.logChunks.list({})).map(({ text }) => text).join("")).not.toContain("found ");
  }, 180_000);
});
