import { visible } from "../text/visible";

type Field = readonly [name: string, value: string];

/** The arguments of a call, for `Fields`. Invisible characters are shown as code points. */
export function argumentFields(args: Record<string, unknown>): Field[] {
  const textOf = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));
  return Object.entries(args).map(([name, value]) => [visible(name), visible(textOf(value))]);
}

/** Names with their values. The caller makes both safe to show. */
export function Fields({ values }: { values: readonly Field[] }) {
  return (
    <dl className="arguments stack">
      {values.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            <pre>{value}</pre>
          </dd>
        </div>
      ))}
    </dl>
  );
}
