import { harmless } from "../text/visible";
import { Icon } from "../components/Icon";
import type { Todo } from "./stream/useConversation";

const STATUS_TEXT = { completed: "done", in_progress: "at work on it", pending: "to do" } as const;

/** The agent's plan and its progress. */
export function Plan({ todos }: { todos: readonly Todo[] }) {
  const done = todos.filter((todo) => todo.status === "completed").length;
  const now = todos.find((todo) => todo.status === "in_progress");
  return (
    <details className="card fold plan">
      <summary className="bar">
        <Icon name="plan" />
        <span>
          Plan: {done} of {todos.length} done
        </span>
        <span className="note cut grow">{now && harmless(now.content)}</span>
        <Icon name="chevron" />
      </summary>
      <ol>
        {todos.map((todo, index) => (
          <li key={index} className={`bar ${todo.status}`}>
            <span className="mark" aria-hidden="true" />
            <span className="hidden">{STATUS_TEXT[todo.status]}: </span>
            {harmless(todo.content)}
          </li>
        ))}
      </ol>
    </details>
  );
}
