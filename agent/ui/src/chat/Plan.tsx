import { harmless } from "../text/visible";
import { Icon } from "./Icon";
import type { Todo } from "./useConversation";

const SAID = { completed: "done", in_progress: "at work on it", pending: "to do" } as const;

/** What the agent means to do, and how far it is. */
export function Plan({ todos }: { todos: readonly Todo[] }) {
  const done = todos.filter((todo) => todo.status === "completed").length;
  const now = todos.find((todo) => todo.status === "in_progress");
  return (
    <details className="plan">
      <summary>
        <Icon name="plan" />
        <span>
          Plan: {done} of {todos.length} done
        </span>
        {now && <span className="plan-now">{harmless(now.content)}</span>}
        <Icon name="chevron" />
      </summary>
      <ol>
        {todos.map((todo, index) => (
          <li key={index} className={todo.status}>
            <span className="mark" aria-hidden="true" />
            <span className="hidden">{SAID[todo.status]}: </span>
            {harmless(todo.content)}
          </li>
        ))}
      </ol>
    </details>
  );
}
