// Empty states: why a page has no data yet, and what to do about it.

import { h } from "../lib/dom.js";
import { copyButton } from "./clipboard.js";

//: *code* is shown with a copy button; *action* is {label, run} or a node.
export function emptyState({ title, text = "", code = "", action = null }) {
  return h(
    "div",
    { class: "empty" },
    h("h2", null, title),
    text && h("p", null, text),
    code && codeSample(code),
    action instanceof Node
      ? action
      : action && h("button", { class: "primary", onclick: action.run }, action.label),
  );
}

//: Code with a copy button.
export function codeSample(code) {
  return h(
    "div",
    { class: "sample" },
    h("pre", { tabindex: 0 }, code),
    copyButton(code),
  );
}

//: Code that adds a first job, and a worker that runs it.
export const FIRST_JOB = `# app.py
import asyncio
import kue

q = kue.Kue()

@q.task
async def send_email(to: str) -> str:
    return f"sent to {to}"

async def main():
    await send_email.enqueue("ann@example.com")
    await q.close()

if __name__ == "__main__":
    asyncio.run(main())

# python app.py          adds a job
# kue worker app:q       runs it`;

