/** A plan that uses every key of the plan file. */
export const contractExample = `name: guestbook
description: optional
limits:
  tasksPerAgentPerWave: 3
  maxParallelTasks: 4
  budget: { usd: 5, tokens: 2000000, wallClock: 2h }
isolation: worktree
onTaskFailure: stop
approval: none
agents:
  default:  { runtime: acp, command: "claude-agent-acp" }
  backend:  { runtime: command, command: "sh ./agent.sh" }
  database: { runtime: builtin, model: "anthropic:claude" }
context: [ { file: docs/house-rules.md }, { text: "Use UTC everywhere." } ]
env: { NODE_ENV: test }
secrets: [STRIPE_TEST_KEY]
services:
  db: { command: "postgres -p $PORT_DB", ready: "pg_isready -p $PORT_DB" }
setup: { run: npm ci, cache: [package-lock.json] }
generated: [ { path: package-lock.json, by: "npm install --package-lock-only" } ]
source: { path: ./seed }
tasks:
  - id: schema
    title: Database schema
    agent: database
    dependsOn: []
    instructions: |
      Write the schema.
    writes: ["migrations/**"]
    acceptance:
      - { text: "migrates an empty database", check: "npm run migrate" }
    changes: required
    mayChangeTests: false
    model: "anthropic:claude"
    timeout: 20m
    retries: 1
  - id: api-tests
    dependsOn: [schema]
    run: |
      echo tests
gates:
  testing:     { command: npm test, minTests: 1, from: api-tests, when: each, timeout: 5m }
  critic:      { block: high }
  integration: { command: npm run build }
  maxFixRounds: 2
preview: { command: "npm start -- --port $PORT", healthPath: / }
network: allowlist
deliver: { forge: local }
notify: ["https://hooks.example.com/x"]
x-anything: { of: any, shape: 1 }
`;
