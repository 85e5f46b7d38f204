import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { ApiError, api, dataOf } from "../api/request.ts";
import { useAction } from "../api/use-action.ts";
import { FaultList, type TextFault } from "../parts/fault-list.tsx";
import { Failure, Shown } from "../parts/states.tsx";
import { YamlEditor } from "../parts/yaml-editor.tsx";

type Setting = ApiType<"Settings">["items"][number];

/** The settings of the server: those in use with their origin, and the file, which can be edited. */
export function ServerSettings() {
  const settings = useQuery({
    queryKey: ["settings"],
    queryFn: ({ signal }) => dataOf(api.GET("/api/v1/settings", { signal })),
    // Never replace what somebody is typing.
    refetchOnWindowFocus: false,
  });
  const [isEditing, setEditing] = useState(false);
  return (
    <section className="stack" aria-labelledby="server-settings">
      <div className="row">
        <h2 id="server-settings" className="grow">
          Server settings
        </h2>
        {!isEditing && settings.data !== undefined && (
          <button type="button" className="button" onClick={() => setEditing(true)}>
            Edit the settings file
          </button>
        )}
      </div>
      <Shown query={settings} what="the settings">
        {(view) => (
          <>
            {view.restartNeeded && (
              <div className="notice" data-tone="wait" role="status">
                The settings file has changed. Restart the server to use it.
              </div>
            )}
            {isEditing && <SettingsFile key={view.tag} before={view} onClose={() => setEditing(false)} />}
            <SettingList items={view.items} />
          </>
        )}
      </Shown>
    </section>
  );
}

interface SettingsFileProps {
  readonly before: ApiType<"Settings">;
  readonly onClose: () => void;
}

function SettingsFile({ before, onClose }: SettingsFileProps) {
  const [text, setText] = useState(before.text);
  const save = useAction(["settings"], () =>
    dataOf(
      api.PUT("/api/v1/settings", {
        body: text,
        bodySerializer: (body) => body as string,
        // Only if it is still the text that the reader began with.
        headers: { "content-type": "application/yaml", "if-match": before.tag },
      }),
    ),
  );
  const faults = faultsIn(save.error);
  return (
    <div className="stack">
      <YamlEditor
        id="settings-text"
        label="The settings file, in YAML"
        text={text}
        faults={faults}
        isShort
        onChange={(changed) => {
          setText(changed);
          save.reset(); // Lines have moved.
        }}
      />
      <FaultList id="settings-text" faults={faults} />
      {faults.length === 0 && <Failure error={save.error} />}
      <p className="small soft">
        Keys are in the list below, such as <code>limits.tasks</code>. Do not put secrets into this file. Environment
        variables override it.
      </p>
      <div className="row wrap">
        <button
          type="button"
          className="button primary"
          disabled={text === before.text || save.isPending}
          onClick={() => save.mutate(undefined, { onSuccess: onClose })}
        >
          Save
        </button>
        <button type="button" className="button" onClick={onClose}>
          Discard
        </button>
      </div>
    </div>
  );
}

function faultsIn(error: unknown): readonly TextFault[] {
  if (!(error instanceof ApiError) || error.code !== "settings-invalid") return [];
  return error.problem.faults as readonly TextFault[];
}

/** The settings that somebody has set; the others on request. */
function SettingList({ items }: { readonly items: readonly Setting[] }) {
  const set = items.filter(({ source }) => source !== "default");
  const others = items.filter(({ source }) => source === "default");
  return (
    <>
      {set.length === 0 ? (
        <p className="small soft">Every setting has its default value.</p>
      ) : (
        <ul className="card list">
          {set.map((setting) => (
            <SettingLine key={setting.name} setting={setting} />
          ))}
        </ul>
      )}
      <details>
        <summary className="small soft">{others.length} settings with their defaults</summary>
        <ul className="card list">
          {others.map((setting) => (
            <SettingLine key={setting.name} setting={setting} />
          ))}
        </ul>
      </details>
    </>
  );
}

const origins: Readonly<Record<string, string>> = {
  environment: "from the environment",
  file: "from the file",
  default: "default",
};

function SettingLine({ setting: { name, key, value, isSecret, isSet, source } }: { readonly setting: Setting }) {
  return (
    <li className="list-item small setting-line">
      <div className="grow">
        <code className="strong">{key ?? name}</code>
        {key !== null && <div className="tiny faint mono">{name}</div>}
      </div>
      <span className="mono clip">{isSecret && isSet ? "set, not shown" : (value ?? "–")}</span>
      <span className="tiny faint">{origins[source] ?? source}</span>
    </li>
  );
}
