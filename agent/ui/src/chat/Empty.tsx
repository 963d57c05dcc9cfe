import type { PageConfig } from "../api/config";

const SAMPLES = {
  "Plot the revenue":
    "Plot the revenue in each month of /data/sales.csv as a line and save it as /results/revenue.png. Which month had the most revenue, and how much?",
  "Get to know the data": "What is in /data/sales.csv? Name its columns, its period, and anything odd in it.",
  "Rank the regions": "Rank the regions in /data/sales.csv by revenue, with the share of each, as a table.",
  "Write a report": "Write a one-page report about /data/sales.csv with one plot, and save it as /results/report.pdf.",
};

/** What the setting APPROVALS means. */
const APPROVALS = {
  ask: "Nothing runs before you have seen it and said yes.",
  effects: "It runs what can be undone, and asks you about what that has changed (APPROVALS=effects).",
  auto: "It runs what it writes without asking you (APPROVALS=auto).",
};

/** A new chat: what the agent can do, with sample tasks. */
export function Empty({ config, onSample }: { config: PageConfig; onSample: (task: string) => void }) {
  return (
    <section className="empty stack">
      <h2>What shall the agent do?</h2>
      <p className="note">
        It works on a computer of its own: a container with Python, a shell and the files of your workspace, and no
        network unless you allow it.{" "}
        {APPROVALS[config.approvals]}
      </p>
      <h3 className="note" id="samples">Try one of these on the sample data</h3>
      <ul className="samples" aria-labelledby="samples">
        {Object.entries(SAMPLES).map(([name, task]) => (
          <li key={name}>
            <button type="button" className="choice" onClick={() => onSample(task)}>
              <strong>{name}</strong>
              <span>{task}</span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
