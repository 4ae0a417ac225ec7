// Python stack trace: the user's own frames are expanded, library frames collapsed.

import { h } from "../../lib/dom.js";
import { plural } from "../../lib/format.js";

const FRAME = /^\s+File "(.+)", line (\d+), in (.+)$/;
const LIBRARY = /[\\/](site-packages|dist-packages|lib[\\/]python\d[\d.]*)[\\/]|^<frozen /;

//: The parts of a stack trace in order: frames, and the text between them.
function parts(text) {
  const found = [];
  let frame = null;
  for (const line of text.trimEnd().split("\n")) {
    const match = FRAME.exec(line);
    if (match) {
      const [, file, number, name] = match;
      frame = { file, line: Number(number), name, code: [], library: isLibrary(file) };
      found.push(frame);
    } else if (frame && /^\s{4,}/.test(line)) {
      frame.code.push(line.slice(4));
    } else if (line.trim()) {
      frame = null;
      found.push({ text: line });
    }
  }
  return found;
}

export function stackView(text) {
  const root = h("div", { class: "stack" });
  for (const group of grouped(parts(text))) {
    if (group.frames) root.append(folded(group.frames));
    else if (group.text !== undefined) {
      root.append(h("p", { class: "stack-text" }, group.text));
    } else root.append(frameView(group));
  }
  return root;
}

function isLibrary(file) {
  return LIBRARY.test(file);
}

//: Adjacent library frames become one group.
function grouped(all) {
  const groups = [];
  for (const part of all) {
    const last = groups.at(-1);
    if (part.library && last?.frames) last.frames.push(part);
    else groups.push(part.library ? { frames: [part] } : part);
  }
  return groups;
}

function folded(frames) {
  const label = plural(frames.length, "library frame");
  return h(
    "details",
    { class: "stack-libraries" },
    h("summary", {}, label),
    frames.map(frameView),
  );
}

function frameView(frame) {
  const place = h(
    "div",
    { class: "stack-place" },
    h("span", { class: "stack-name" }, frame.name),
    h("span", { class: "stack-file", title: frame.file }, shortened(frame.file)),
    h("span", { class: "stack-line" }, `line ${frame.line}`),
  );
  const code = frame.code.length > 0 && h("pre", {}, frame.code.join("\n"));
  return h("div", { class: "stack-frame" }, place, code);
}

//: The end of a path, which identifies the file.
function shortened(file) {
  const steps = file.split(/[\\/]/);
  return steps.length > 4 ? `…/${steps.slice(-3).join("/")}` : file;
}
