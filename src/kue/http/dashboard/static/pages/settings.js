// Who may come in: people with passwords, programs with tokens; and how it looks here.

import { h } from "../lib/dom.js";
import { people } from "./settings/people.js";
import { looks } from "./settings/looks.js";
import { tokens } from "./settings/tokens.js";

export const page = {
  path: "/settings",
  title: "Settings",
  nav: { label: "Settings", icon: "settings", order: 90, key: "s" },

  mount(root, context) {
    const end = new AbortController();
    root.append(
      h("header", { class: "page-head" }, h("h1", null, "Settings")),
      looks(context, end.signal),
    );
    if (context.can("admin")) root.append(people(context), tokens(context));
    return () => end.abort();
  },
};
