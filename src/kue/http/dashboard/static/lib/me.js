// Who looks at the dashboard, and what they may do.

import { api } from "./api.js";

//: The scope that each thing takes.
const NEEDED = {
  look: "read",
  add: "enqueue",
  manage: "manage",
  remove: "admin",
  admin: "admin",
};
//: What each role may, for servers that tell the role alone.
const SCOPES = {
  viewer: ["read"],
  operator: ["read", "enqueue", "manage"],
  admin: ["read", "enqueue", "manage", "admin"],
};
//: On a server that asks nobody who they are.
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

//: Ask the server; raises a Problem with status 401 when nobody is logged in.
export async function readMe() {
  let told = ANYONE;
  try {
    told = await api.get("/me");
  } catch (error) {
    if (!error.isMissing) throw error;
  }
  return setMe(told);
}

export function setMe(told) {
  return Object.assign(me, ANYONE, told, { isKnown: true });
}

//: Whether whoever looks may "look", "add" jobs, "manage" (retry, cancel, pause),
//: "remove" (for good) or "admin" (say who may do what).
export function can(what) {
  const needed = NEEDED[what] ?? "admin";
  if (needed !== "read" && me.read_only) return false;
  const scopes = me.scopes?.length ? me.scopes : (SCOPES[me.role] ?? []);
  return scopes.includes(needed);
}
