// Batch actions: cancel what has not started, retry what failed.

import { confirm } from "../../components/dialog.js";
import { toast, toastDone, toastProblem } from "../../components/toast.js";
import { api } from "../../lib/api.js";
import { plural } from "../../lib/format.js";

//: Cancel the jobs of a batch that have not started, after a confirmation; like the
//: other it returns a promise of whether it was done.
export async function cancelBatch({ id }) {
  const title = `Cancel batch ${id}?`;
  const text = "Jobs that have not started are cancelled; those that run go on.";
  if (!(await confirm({ title, text, action: "Cancel the batch", danger: true }))) return false;
  return toastDone(`Batch ${id} is cancelled`, api.post(`/batches/${id}/cancel`));
}

//: Run the failed and cancelled jobs of a batch again.
export async function retryBatch(id) {
  try {
    const { retried } = await api.post(`/batches/${id}/retry`);
    toast(`${plural(retried, "job")} of batch ${id} requeued`, { tone: "good" });
    return true;
  } catch (error) {
    toastProblem(error);
    return false;
  }
}
