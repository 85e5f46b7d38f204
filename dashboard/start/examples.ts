/** Plans that run as they are: scripts instead of agents, and nothing from outside. */
export const examples = [
  {
    name: "Three waves",
    text: `name: three-waves
tasks:
  - id: words
    run: |
      mkdir -p src
      echo 'export const greet = (name) => "Hello, " + name + "!";' > src/greet.js
    writes: [src/greet.js]

  - id: page
    run: echo '<h1>Greetings</h1>' > page.html
    writes: [page.html]

  - id: tests
    dependsOn: [words]
    run: |
      mkdir -p test
      cat > test/greet.test.js <<'END'
      import test from "node:test";
      import assert from "node:assert";
      import { greet } from "../src/greet.js";
      test("greets by name", () => assert.equal(greet("Ada"), "Hello, Ada!"));
      END
    writes: [test/greet.test.js]

  - id: notes
    dependsOn: [tests, page]
    run: echo 'Run the tests with node --test.' > NOTES.md
    writes: [NOTES.md]

gates:
  testing: { command: node --test --test-reporter=tap test/*.test.js, minTests: 1, from: tests }
`,
  },
  {
    name: "With your approval",
    text: `name: asks-first
approval: wave            # every wave waits for you before it becomes main
tasks:
  - id: draft
    run: echo 'A draft.' > draft.md
    writes: [draft.md]

  - id: final
    dependsOn: [draft]
    run: sed 's/draft/final text/' draft.md > final.md
    writes: [final.md]
`,
  },
  {
    name: "With an agent",
    text: `name: greeter
agents:
  # Or acp with a command, such as claude-agent-acp, or any program: runtime command.
  default: { runtime: builtin, model: "anthropic:claude-sonnet-5" }
tasks:
  - id: greet
    agent: backend
    instructions: Write greet.js, which exports greet(name).
    writes: [greet.js]

  - id: greet-tests
    agent: testing
    dependsOn: [greet]
    instructions: Write greet.test.js with node:test.
    writes: [greet.test.js]
gates:
  testing: { command: node --test --test-reporter=tap, minTests: 1, from: greet-tests }
`,
  },
] as const;
