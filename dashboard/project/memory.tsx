import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { api, dataOf } from "../api/request.ts";
import { useAction } from "../api/use-action.ts";
import { plainText } from "../parts/plain-text.ts";
import { Empty, Failure, Shown } from "../parts/states.tsx";

/** A project's memory of its builds; the prompts of later builds contain it. */
export function ProjectMemory({ projectId }: { readonly projectId: string }) {
  const params = { path: { id: projectId } };
  const memory = useQuery({
    queryKey: ["memory", projectId],
    queryFn: ({ signal }) => dataOf(api.GET("/api/v1/projects/{id}/memory", { params, signal })),
  });
  const [draft, setDraft] = useState<ApiType<"Memory"> | null>(null);
  const save = useAction(["memory"], ({ text, tag }: ApiType<"Memory">) =>
    // Only if it is still the text that the reader began with.
    dataOf(api.PUT("/api/v1/projects/{id}/memory", { params, body: { text }, headers: { "if-match": tag } })),
  );
  return (
    <Shown query={memory} what="its memory">
      {(present) => (
        <section className="stack" aria-labelledby="memory-head">
          <div className="row wrap">
            <div className="grow">
              <h2 id="memory-head">Memory</h2>
              <p className="small soft">Agents of later builds read this, and builds add to it.</p>
            </div>
            {draft === null ? (
              <button type="button" className="button" onClick={() => setDraft(present)}>
                Edit
              </button>
            ) : (
              <div className="row">
                <button type="button" className="button" onClick={() => setDraft(null)}>
                  Discard
                </button>
                <button
                  type="button"
                  className="button primary"
                  disabled={save.isPending}
                  onClick={() => save.mutate(draft, { onSuccess: () => setDraft(null) })}
                >
                  Save
                </button>
              </div>
            )}
          </div>
          <Failure error={save.error} />
          {draft !== null ? (
            <textarea
              className="field memory-edit"
              aria-label="Memory, in Markdown"
              value={draft.text}
              onChange={({ target }) => setDraft({ ...draft, text: target.value })}
            />
          ) : present.text.trim() === "" ? (
            <Empty title="Nothing remembered yet." />
          ) : (
            <div className="card memory-text">{plainText(present.text)}</div>
          )}
        </section>
      )}
    </Shown>
  );
}
