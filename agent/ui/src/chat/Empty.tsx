import type { PageConfig } from "../api/config";

const SAMPLES = [
  {
    name: "Plot the revenue",
    task: "Plot the revenue in each month of /data/sales.csv as a line and save it as /results/revenue.png. Which month had the most revenue, and how much?",
  },
  { name: "Get to know the data", task: "What is in /data/sales.csv? Name its columns, its period, and anything odd in it." },
  {
    name: "Rank the regions",
    task: "Rank the regions in /data/sales.csv by revenue, with the share of each, as a table.",
  },
  {
    name: "Write a report",
    task: "Write a one-page report about /data/sales.csv with one plot, and save it as /results/report.pdf.",
  },
];

interface EmptyProps {
  config: PageConfig;
  onSample: (task: string) => void;
}

/** Where a chat begins: what this is, and what can be asked. */
export function Empty({ config, onSample }: EmptyProps) {
  return (
    <section className="empty">
      <h2>What shall the agent do?</h2>
      <p>
        It works on a computer of its own: a container with Python, a shell and the files of your workspace, and no
        network unless you allow it.{" "}
        {config.approvals === "ask"
          ? "Nothing runs before you have seen it and said yes."
          : "It runs what it writes without asking you (APPROVALS=auto)."}
      </p>
      <h3 id="samples">Try one of these on the sample data</h3>
      <ul className="samples" aria-labelledby="samples">
        {SAMPLES.map((sample) => (
          <li key={sample.name}>
            <button type="button" onClick={() => onSample(sample.task)}>
              <strong>{sample.name}</strong>
              <span>{sample.task}</span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
