// The current user and their permissions.

import { api } from "./api.js";

//: The scope that each permission requires.
const REQUIRED = {
  read: "read",
  add: "enqueue",
  manage: "manage",
  remove: "admin",
  admin: "admin",
};
//: The scopes of each role, for servers that return only the role.
const SCOPES = {
  viewer: ["read"],
  operator: ["read", "enqueue", "manage"],
  admin: ["read", "enqueue", "manage", "admin"],
};
//: The user on a server without login.
const ANYONE = {
  name: "local",
  role: "admin",
  scopes: [],
  read_only: false,
  badge: null,
  can_log_out: false,
  open_mode: false,
};

export const me = { ...ANYONE, isKnown: false };

//: Read the user from the server; throws a Problem with status 401 unless logged in.
export async function readMe() {
  let user = ANYONE;
  try {
    user = await api.get("/me");
  } catch (error) {
    if (!error.isMissing) throw error;
  }
  return setMe(user);
}

export function setMe(user) {
  return Object.assign(me, ANYONE, user, { isKnown: true });
}

//: Whether the user may "read", "add" jobs, "manage" (retry, cancel, pause), "remove"
//: (permanently) or "admin" (manage users and tokens).
export function can(permission) {
  const scope = REQUIRED[permission] ?? "admin";
  if (scope !== "read" && me.read_only) return false;
  const scopes = me.scopes?.length ? me.scopes : (SCOPES[me.role] ?? []);
  return scopes.includes(scope);
}
