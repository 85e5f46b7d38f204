import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { planQuery } from "../api/queries.ts";
import { api, dataOf } from "../api/request.ts";
import { Failure } from "../parts/states.tsx";
import { Ago } from "../parts/times.tsx";

/** Says something to the agent of a task, and shows what people said before. A script cannot read messages. */
export function TellBox({ buildId, task }: { readonly buildId: string; readonly task: string }) {
  const [text, setText] = useState("");
  const client = useQueryClient();
  const params = { path: { id: buildId, task } };
  const queryKey = ["build", buildId, "messages", task];
  const messages = useQuery({
    queryKey,
    queryFn: async ({ signal }) =>
      (await dataOf(api.GET("/api/v1/builds/{id}/tasks/{task}/messages", { params, signal }))).items,
  });
  const tell = useMutation({
    mutationFn: () =>
      dataOf(
        api.POST("/api/v1/builds/{id}/tasks/{task}/messages", {
          params,
          body: { text: text.trim(), by: "the dashboard" },
        }),
      ),
    onSuccess: () => setText(""),
    onSettled: () => client.invalidateQueries({ queryKey }),
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    tell.mutate();
  };
  const plan = useQuery(planQuery(buildId)).data;
  if (plan?.tasks.find(({ key }) => key === task)?.run !== null) return null;
  return (
    <form className="tell stack" onSubmit={submit}>
      {(messages.data ?? []).slice(-3).map(({ id, by, text: said, createdAt }) => (
        <div key={id} className="small message-before">
          <span className="tiny faint">
            {by}, <Ago time={createdAt} />
          </span>
          <div>{said}</div>
        </div>
      ))}
      <Failure error={tell.error} />
      <div className="row">
        <input
          className="field grow"
          aria-label={`Tell the agent of ${task}`}
          placeholder="Tell this agent something"
          value={text}
          onChange={({ target }) => setText(target.value)}
        />
        <button type="submit" className="button" disabled={text.trim() === "" || tell.isPending}>
          Tell
        </button>
      </div>
    </form>
  );
}
