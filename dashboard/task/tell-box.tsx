import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { planQuery } from "../api/queries.ts";
import { api, dataOf } from "../api/request.ts";
import { Failure } from "../parts/states.tsx";
import { Ago } from "../parts/times.tsx";

interface TellBoxProps {
  readonly buildId: string;
  readonly task: string;
}

/** Says something to the agent of a task, and shows what people said before. A script cannot read messages. */
export function TellBox({ buildId, task }: TellBoxProps) {
  const plan = useQuery(planQuery(buildId)).data;
  if (plan?.tasks.find(({ key }) => key === task)?.run !== null) return null;
  return (
    <div className="tell stack">
      <Messages buildId={buildId} task={task} />
      <TellForm buildId={buildId} task={task} />
    </div>
  );
}

const messagesKey = (buildId: string, task: string) => ["build", buildId, "messages", task];
const pollMs = 2_000;
const mostShown = 3;
const states: Readonly<Record<ApiType<"ListedMessage">["state"], string>> = {
  delivered: "the agent has it",
  waiting: "the agent does not have it yet",
  missed: "it came too late",
};

/** The latest messages, and whether the agent has received them. */
function Messages({ buildId, task }: TellBoxProps) {
  const messages = useQuery({
    queryKey: messagesKey(buildId, task),
    queryFn: async ({ signal }) => {
      const params = { path: { id: buildId, task } };
      return (await dataOf(api.GET("/api/v1/builds/{id}/tasks/{task}/messages", { params, signal }))).items;
    },
    refetchInterval: ({ state: { data } }) => (data?.some(({ state }) => state === "waiting") ? pollMs : false),
  });
  return (
    <ul className="stack tight" aria-label={`Messages to the agent of ${task}`} aria-live="polite">
      {(messages.data ?? []).slice(-mostShown).map(({ id, by, text, createdAt, state }) => (
        <li key={id} className="small message-before">
          <span className="tiny faint">
            {by}, <Ago time={createdAt} /> · {states[state]}
          </span>
          <div>{text}</div>
        </li>
      ))}
    </ul>
  );
}

/** Enter sends a message for the end of the agent's turn; the second button interrupts it. */
function TellForm({ buildId, task }: TellBoxProps) {
  const [text, setText] = useState("");
  const client = useQueryClient();
  const tell = useMutation({
    mutationFn: (now: boolean) => {
      const params = { path: { id: buildId, task } };
      const body = { text: text.trim(), by: "the dashboard", now };
      return dataOf(api.POST("/api/v1/builds/{id}/tasks/{task}/messages", { params, body }));
    },
    onSuccess: () => setText(""),
    onSettled: () => client.invalidateQueries({ queryKey: messagesKey(buildId, task) }),
  });
  const isOff = text.trim() === "" || tell.isPending;
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (!isOff) tell.mutate(false);
  };
  return (
    <form className="stack tight" onSubmit={submit}>
      <Failure error={tell.error} />
      <input
        className="field"
        aria-label={`Tell the agent of ${task}`}
        aria-describedby="tell-when"
        placeholder="Tell this agent something"
        value={text}
        onChange={({ target }) => setText(target.value)}
      />
      <div className="row">
        <span id="tell-when" className="tiny faint grow">
          It reads this after its present turn. “Tell now” interrupts the turn.
        </span>
        <button type="button" className="button" disabled={isOff} onClick={() => tell.mutate(true)}>
          Tell now
        </button>
        <button type="submit" className="button primary" disabled={isOff}>
          Tell
        </button>
      </div>
    </form>
  );
}
