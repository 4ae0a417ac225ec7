// Users with their roles: add, change, remove.

import { confirm } from "../../components/dialog.js";
import { emptyState } from "../../components/empty-state.js";
import { formDialog } from "../../components/form.js";
import { table } from "../../components/table.js";
import { toast, toastProblem } from "../../components/toast.js";
import { pathSegment, report } from "../../lib/api.js";
import { fill, h } from "../../lib/dom.js";
import { timeAgo } from "../../lib/format.js";

const ROLES = [
  ["viewer", "Viewer: reads everything"],
  ["operator", "Operator: adds, retries, cancels, pauses"],
  ["admin", "Admin: also removes jobs and manages users"],
];
const NO_LOGIN =
  "Everyone with the start-up token has full access. Add a user on the command line " +
  "before you expose the dashboard.";
const HELP = "At least 8 characters";

export function usersPanel({ api, me }) {
  const columns = [
    {
      key: "name",
      label: "Name",
      render: (user) =>
        h("span", { class: "wrap" }, user.name, user.name === me.name && youMark()),
    },
    { key: "role", label: "Role", render: (user) => user.role },
    { key: "created", label: "Since", render: (user) => timeAgo(user.created_at) },
    { key: "acts", label: "", class: "end nowrap", render: actions },
  ];
  const list = table({ columns, key: (user) => user.name, caption: "Users" });
  const container = h("div", { class: "flush as-cards" });
  const add = h("button", { class: "small", onclick: create }, "Add a user");
  // Without login, users are added on the command line.
  add.hidden = me.open_mode;
  const node = h(
    "section",
    { class: "card" },
    h(
      "header",
      { class: "card-head" },
      h("h2", null, "Users"),
      h("span", { class: "actions" }, add),
    ),
    container,
  );
  read();
  return node;

  async function read() {
    try {
      const found = await api.get("/users");
      const users = found.users ?? found;
      list.update(users);
      fill(container, users.length ? list.node : noUsers());
    } catch (error) {
      add.hidden = true;
      fill(container, unavailable(error));
    }
  }

  function actions(user) {
    if (me.open_mode) return null;
    return h(
      "span",
      { class: "actions actions-end" },
      h("button", { class: "small", onclick: () => change(user) }, "Role"),
      h("button", { class: "small", onclick: () => password(user) }, "Password"),
      h("button", { class: "small danger", onclick: () => remove(user) }, "Remove"),
    );
  }

  function create() {
    return formDialog({
      title: "Add a user",
      action: "Add",
      fields: [
        { name: "name", label: "Name", required: true },
        {
          name: "role",
          label: "Role",
          type: "select",
          options: ROLES,
          value: "viewer",
        },
        {
          name: "password",
          label: "Password",
          type: "password",
          required: true,
          help: HELP,
          autocomplete: "new-password",
        },
      ],
      submit: async (values) => {
        await api.post("/users", values);
        done(`${values.name} can log in`);
      },
    });
  }

  function change(user) {
    return formDialog({
      title: `Role of ${user.name}`,
      fields: [
        {
          name: "role",
          label: "Role",
          type: "select",
          options: ROLES,
          value: user.role,
        },
      ],
      submit: async ({ role }) => {
        await api.put(`/users/${pathSegment(user.name)}`, { role });
        done(`${user.name} is ${role}`);
      },
    });
  }

  function password(user) {
    return formDialog({
      title: `Password of ${user.name}`,
      text: "All sessions of this user end.",
      fields: [
        {
          name: "password",
          label: "New password",
          type: "password",
          required: true,
          help: HELP,
          autocomplete: "new-password",
        },
      ],
      submit: async (values) => {
        await api.put(`/users/${pathSegment(user.name)}`, values);
        done(`${user.name} has a new password`);
      },
    });
  }

  async function remove(user) {
    const isSure = await confirm({
      title: `Remove ${user.name}?`,
      text: "All sessions of this user end.",
      action: "Remove",
      danger: true,
    });
    if (!isSure) return;
    try {
      await api.delete(`/users/${pathSegment(user.name)}`);
      done(`${user.name} is removed`);
    } catch (error) {
      toastProblem(error);
    }
  }

  function done(text) {
    toast(text, { tone: "good" });
    read();
  }
}

function youMark() {
  return h("span", { class: "faint" }, " (you)");
}

function noUsers() {
  return emptyState({
    title: "No login required",
    text: NO_LOGIN,
    code: "kue user add ann --role admin",
  });
}

function unavailable(error) {
  if (!error.isMissing) report(error);
  const text = error.isMissing
    ? "The application that serves this dashboard controls access."
    : error.message;
  return emptyState({ title: "No users", text });
}
