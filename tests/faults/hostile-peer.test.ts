import { afterEach, describe, expect, it } from "vitest";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";
import { requires } from "../support/require.ts";

// Jobs that run at the same time: each connects to the address on which the other listens.

describe.runIf(requires("bubblewrap")).each(["none", "allowlist"])(
  "a task beside a hostile one (network: %s)",
  (network) => {
    let fixture: BuildFixture;
    afterEach(async () => {
      await fixture.close();
    });

    const node = JSON.stringify(process.execPath);
    const signal = (name: string) => `touch ../../../cache/${name}`;
    const wait = (name: string) => `while ! test -e ../../../cache/${name}; do sleep 0.05; done`;
    /** Prints `name`, an address, and `answered` or the error's code. */
    const connect = (name: string, to: string) =>
      `${node} -e "require('net').connect(${to}).on('connect', function () { console.log('${name} answered'); this.destroy() }).on('error', (error) => console.log('${name}', error.code))"`;
    const listen = (at: string, then: string) =>
      `${node} -e "require('net').createServer((caller) => caller.end()).listen(${at}, () => require('fs').writeFileSync('../../../cache/${then}', ''))" &`;

    it("is reachable on no port and on no abstract socket, and reaches no other job on its own", async () => {
      fixture = await createBuildFixture({ sandbox: "local" });
      const tasks = [
        {
          id: "victim",
          run: `${listen("4567, '127.0.0.1'", "port")}
${listen("'\\\\0of-victim'", "abstract")}
${wait("port")}; ${wait("abstract")}; ${wait("forged")}
${connect("own", "4567, '127.0.0.1'")} > victim
${connect("forged", "4568, '127.0.0.1'")} >> victim
${signal("ready")}; ${wait("done")}`,
          retries: 0,
        },
        {
          id: "hostile",
          run: `${listen("4568, '127.0.0.1'", "forged")}
${wait("ready")}
${connect("port", "4567, '127.0.0.1'")} > hostile
${connect("abstract", "'\\\\0of-victim'")} >> hostile
${signal("done")}`,
          retries: 0,
        },
      ];
      const build = await fixture.build({ network, limits: { maxParallelTasks: 2 }, tasks });
      expect([build.status, build.reason]).toEqual(["completed", null]);
      expect(await fixture.git("show", "main:victim")).toBe("own answered\nforged ECONNREFUSED\n");
      expect(await fixture.git("show", "main:hostile")).toBe("port ECONNREFUSED\nabstract ECONNREFUSED\n");
    });
  },
);
