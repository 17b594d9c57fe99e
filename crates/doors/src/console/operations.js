// What an operator has the node do with tables: compactions, snapshots, files that are brought in; and how far it is.

import { bar, byId, element, operate, rowsOf, size } from "./kit.js";

const LOOK_MS = 300;
const SHOWN_MAX = 8;

const plural = (number, one) => `${number} ${one}${number === 1 ? "" : "s"}`;
const imported = ({ sstables, rows, data_bytes: bytes }) => `${plural(sstables, "SSTable")}, ${plural(rows, "row")}, ${size(bytes)}`;

/** What there is to do: the request, what it shows of the form, what it means, and what came of it. */
const OPERATIONS = {
  compaction_major: {
    name: "Compact", fields: [],
    about: (of) => `All SSTables of ${of} are written anew as few. It takes as much room on the disk again until it is done.`,
    request: () => ({}),
    outcome: (answer) => `${plural(answer.compacted.tables, "table")} compacted`,
  },
  compaction_stop: {
    name: "Stop compactions", fields: [],
    about: (of) => `What compactions of ${of} wrote is removed, what they read stays. None begins for a minute.`,
    request: () => ({}),
    outcome: (answer) => `${plural(answer.compactions_stopped.count, "compaction")} stopped`,
  },
  flush: {
    name: "Flush", fields: [],
    about: (of) => `What ${of} has in memory is written as SSTables.`,
    request: () => ({}),
    outcome: (answer) => `${plural(answer.flushed.tables, "table")} flushed`,
  },
  snapshot_create: {
    name: "Take a snapshot", fields: ["snapshot-name"],
    about: (of) => `The files of ${of} are linked under a name: nothing is copied, and they stay until the snapshot is removed.`,
    request: () => ({ name: byId("snapshot-name").value.trim() }),
    outcome: (answer) => `${plural(answer.snapshots_created.length, "table")}, ${size(sum(answer.snapshots_created, "bytes"))} linked`,
  },
  snapshot_restore: {
    name: "Restore a snapshot", fields: ["snapshot", "replace"],
    about: (of) => (byId("replace").checked ? `${of} will hold what the snapshot holds, and nothing else.` : `The snapshot's rows are merged with those of ${of}: the newest write of each cell wins.`),
    request: () => ({ name: byId("snapshot").value, replace: byId("replace").checked }),
    outcome: (answer) => answer.snapshots_restored.map(imported).join("; ") || "nothing to restore",
    isDestructive: () => byId("replace").checked,
  },
  snapshot_remove: {
    name: "Remove a snapshot", fields: ["snapshot"],
    about: (of) => `The snapshot of ${of} is removed for ever; the rows of the table stay.`,
    request: () => ({ name: byId("snapshot").value }),
    outcome: (answer) => `${size(sum(answer.snapshots_removed, "true_bytes"))} freed`,
    isDestructive: () => true,
  },
  import: {
    name: "Import SSTables", fields: ["folder", "replace"], isOfTable: true,
    about: (of) => `The SSTables in a folder that the node can read are checked and linked into ${of}. ${byId("replace").checked ? "What it holds now goes." : "Its rows stay; the newest write of each cell wins."}`,
    request: () => ({ folder: byId("folder").value.trim(), replace: byId("replace").checked }),
    outcome: (answer) => imported(answer.imported),
    isDestructive: () => byId("replace").checked,
  },
};

const sum = (all, name) => all.reduce((total, one) => total + one[name], 0);

let asked = null;
let changed = () => {};

function chosen() {
  const operation = OPERATIONS[byId("operation").value];
  const isOfTable = operation.isOfTable || byId("operation-scope").value === "table";
  return {
    operation,
    of: isOfTable ? `${asked.keyspace}.${asked.table}` : `all tables of ${asked.keyspace}`,
    tables: { keyspace: asked.keyspace, ...(isOfTable && { table: asked.table }) },
  };
}

function showForm() {
  const { operation, of } = chosen();
  for (const field of document.querySelectorAll("#operate [data-field]")) {
    field.hidden = !operation.fields.includes(field.dataset.field);
    for (const input of field.querySelectorAll("input:not([type=checkbox]), select")) input.required = !field.hidden;
  }
  byId("operation-scope").disabled = Boolean(operation.isOfTable);
  const isDestructive = operation.isDestructive?.() ?? false;
  byId("sure-field").hidden = !isDestructive;
  byId("sure").required = isDestructive;
  byId("operation-about").textContent = operation.about(of);
  byId("operation-run").textContent = operation.name;
}

async function readSnapshots(keyspace, table) {
  const rows = await rowsOf("SELECT name, keyspace_name, table_name FROM system_views.snapshots");
  const names = new Set(rows.filter((row) => row.keyspace_name === keyspace && row.table_name === table).map((row) => row.name));
  byId("snapshot").replaceChildren(...[...names].sort().map((name) => element("option", {}, name)));
}

/** Asks what is to be done with a table. */
export async function askForOperation(keyspace, table) {
  asked = { keyspace, table };
  byId("operate-title").textContent = `${keyspace}.${table}`;
  byId("operation").value = "compaction_major";
  byId("operation-scope").value = "table";
  byId("snapshot-name").value = `console-${new Date().toISOString().slice(0, 19).replace(/[-:]/g, "")}`;
  for (const box of ["replace", "sure"]) byId(box).checked = false;
  await readSnapshots(keyspace, table);
  showForm();
  byId("operate").showModal();
}

/** A line of the list that shows how far an operation is. */
class Line {
  constructor(text) {
    this.text = text;
    this.place = element("div", {});
    this.show(0, "begun");
    const list = byId("operation-list");
    list.prepend(this.place);
    while (list.children.length > SHOWN_MAX) list.lastChild.remove();
    byId("operations").hidden = false;
  }

  show(part, amount) { this.place.replaceChildren(bar(this.text, part, amount)); }

  end(text, isFailed) {
    this.place.replaceChildren(element("p", { class: isFailed ? "error" : "", role: isFailed ? "alert" : "status" }, element("strong", {}, this.text), `: ${text}`));
  }
}

/** Shows how far the compactions of the tables are, which the operation itself counts by tables only. */
async function followCompactions(line, { keyspace, table }, isOver) {
  while (!isOver()) {
    const tasks = await rowsOf("SELECT keyspace_name, table_name, progress, total FROM system_views.sstable_tasks").catch(() => []);
    const own = tasks.filter((task) => task.keyspace_name === keyspace && (!table || task.table_name === table));
    const total = sum(own, "total");
    if (total && !isOver()) line.show(sum(own, "progress") / total, `${size(sum(own, "progress"))}`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

async function run(event) {
  event.preventDefault();
  const { operation, of, tables } = chosen();
  const kind = byId("operation").value;
  const request = { request: kind, tables, ...operation.request() };
  byId("operate").close();
  const line = new Line(`${operation.name}, ${of}`);
  let isOver = false;
  if (kind === "compaction_major") followCompactions(line, tables, () => isOver);
  let [total, unit] = [0, ""];
  try {
    const answer = await operate(request, (reply) => {
      if (reply.reply === "begin") [total, unit] = [reply.total, reply.unit];
      const done = reply.done ?? 0;
      line.show(total ? done / total : 0, unit === "bytes" ? size(done) : `${done} of ${total}`);
    });
    line.end(operation.outcome(answer));
    changed();
  } catch (problem) {
    line.end(problem.message, true);
  } finally {
    isOver = true;
  }
}

/** `onChange` is called when tables or their files have changed. */
export function listenForOperations(onChange) {
  changed = onChange;
  byId("operation").replaceChildren(...Object.entries(OPERATIONS).map(([value, { name }]) => element("option", { value }, name)));
  byId("operate-form").addEventListener("submit", run);
  byId("operate-form").addEventListener("input", showForm);
  byId("operation-cancel").addEventListener("click", () => byId("operate").close());
}
