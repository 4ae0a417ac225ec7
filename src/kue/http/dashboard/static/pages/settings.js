// Settings page: account, theme, alerts, users, tokens and connections.

import { formDialog } from "../components/form.js";
import { setTheme, themeName } from "../components/theme.js";
import { toast } from "../components/toast.js";
import { version } from "../lib/config.js";
import { fill, h } from "../lib/dom.js";
import { alertsPanel } from "./settings/alerts.js";
import { connectionsPanel } from "./settings/connections.js";
import { tokensPanel } from "./settings/tokens.js";
import { usersPanel } from "./settings/users.js";

export const page = {
  path: "/settings",
  title: "Settings",
  nav: { label: "Settings", icon: "settings", order: 90, key: "s" },

  mount(root, context) {
    const end = new AbortController();
    root.append(
      h("header", { class: "page-head" }, h("h1", null, "Settings")),
      accountPanel(context, end.signal),
      alertsPanel(context),
    );
    if (context.can("admin")) {
      root.append(
        usersPanel(context),
        tokensPanel(context),
        connectionsPanel(context, end.signal),
      );
    }
    return () => end.abort();
  },
};

// -- account and theme ------------------------------------------------------------

const THEMES = [
  ["system", "System"],
  ["light", "Light"],
  ["dark", "Dark"],
];

//: *signal* is aborted when the page is left.
function accountPanel({ api, me }, signal) {
  const choice = h("div", { class: "actions", role: "group", "aria-label": "Theme" });
  function draw() {
    fill(
      choice,
      THEMES.map(([name, label]) => {
        const isOn = themeName() === name;
        const choose = () => setTheme(name);
        return h(
          "button",
          { class: "small", "aria-pressed": String(isOn), onclick: choose },
          label,
        );
      }),
    );
  }
  draw();
  window.addEventListener("kue:theme", draw, { signal });
  return h(
    "section",
    { class: "card" },
    h("header", { class: "card-head" }, h("h2", null, "You")),
    h(
      "dl",
      { class: "card-body facts facts-tall" },
      h("dt", null, "Name"),
      h("dd", null, me.name),
      h("dt", null, "Role"),
      h(
        "dd",
        null,
        me.role ?? (me.scopes ?? []).join(", "),
        me.read_only && h("span", { class: "warn" }, ", read-only"),
      ),
      // Only users who logged in with a password have one.
      me.can_log_out &&
        me.role && [h("dt", null, "Password"), h("dd", null, passwordButton(api))],
      h("dt", null, "Theme"),
      h("dd", null, choice),
      h("dt", null, "Version"),
      h("dd", null, `Kue ${version}`),
    ),
  );
}

function passwordButton(api) {
  const change = () =>
    formDialog({
      title: "Change your password",
      text: "All your other sessions end.",
      action: "Change",
      fields: [
        {
          name: "current",
          label: "Current password",
          type: "password",
          required: true,
          autocomplete: "current-password",
        },
        {
          name: "password",
          label: "New password",
          type: "password",
          required: true,
          help: "At least 8 characters",
          autocomplete: "new-password",
        },
      ],
      submit: async (values) => {
        await api.put("/me/password", values);
        toast("Your password is changed", { tone: "good" });
      },
    });
  return h("button", { class: "small", onclick: change }, "Change password");
}
