// The figures of the table at a glance, and the lines of this worker over time.

import { Chart } from "./charts.js";
import { total } from "./shards.js";
import { make, setText } from "./tables.js";
import { ago, count, loss, rate, several } from "./words.js";

const byId = (id) => document.getElementById(id);

function totals({ shards, history, now }) {
  const last = history.findLast((point) => point.ncp !== null);
  const oldest = shards.map((shard) => shard.pending_oldest).filter(Boolean).sort()[0];
  const pending = total(shards, "pending");
  const worse = last?.ncp_fresh ? last.ncp / last.ncp_fresh - 1 : null;
  return [
    ["lag", count(total(shards, "lag")), "messages wait"],
    ["read", rate(total(shards, "messages_per_s")), "messages a second"],
    ["published", rate(total(shards, "records_per_s")), "records a second"],
    ["rows", count(total(shards, "rows")), `in ${several(total(shards, "qi_groups"), "QI group")}`],
    ["pending", count(pending),
      pending && oldest ? `rows, the oldest since ${ago(oldest, now)}` : "rows that cannot be published yet"],
    ["loss", loss(last?.ncp), worse === null ? "a fresh table's is not known yet" :
      `a fresh table has ${loss(last.ncp_fresh)} (${worse < 0 ? "" : "+"}${(100 * worse).toFixed(1)} % here)`],
    ["dead letters", count(total(shards, "dead_letters")), `of ${several(total(shards, "messages"), "message")}`],
  ];
}

export function showTotals(facts) {
  const list = byId("totals"), told = totals(facts);
  while (list.children.length < told.length) {
    list.append(make("div", {}, make("dt"), make("dd"), make("dd", { class: "note" })));
  }
  told.forEach((texts, i) => texts.forEach((text, j) => setText(list.children[i].children[j], text)));
}

/** The checked line: every message that was read is accounted for. */
export function summed(shards) {
  const sums = ["messages", "applied", "ignored", "dead_letters"].map((name) => total(shards, name));
  const [messages, applied, ignored, letters] = sums.map(count);
  const adds = sums[0] === sums[1] + sums[2] + sums[3] ? "it adds up" : "it does NOT add up";
  return `messages ${messages} = applied ${applied} + ignored ${ignored} + dead letters ${letters}: ${adds}`;
}

const CHARTS = [
  new Chart("Lag, messages", [{ name: "lag", of: (point) => point.lag }], count),
  new Chart("Throughput, per second", [
    { name: "messages read", of: (point) => point.messages_per_s },
    { name: "records published", of: (point) => point.records_per_s },
  ], rate),
  new Chart("Loss (NCP)", [
    { name: "as it is", of: (point) => point.ncp },
    { name: "fresh, estimated", of: (point) => point.ncp_fresh },
  ], loss, false),
  new Chart("Pending rows", [{ name: "pending", of: (point) => point.pending }], count),
];

export const prepareCharts = () => byId("charts").append(...CHARTS.map((chart) => chart.element));

// The history comes ever more coarsely, and is drawn up to this moment. The loss is looked at rarely, and stays.
function upToNow({ shards, history, now }) {
  const here = shards.filter((shard) => shard.here), { ncp, ncp_fresh } = history.at(-1);
  const counted = ["lag", "messages_per_s", "records_per_s", "pending"].map((name) => [name, total(here, name)]);
  return [...history, { at: now, ncp, ncp_fresh, ...Object.fromEntries(counted) }];
}

export function showCharts(facts) {
  const enough = facts.history.length > 1;
  byId("no-history").hidden = enough;
  byId("charts").hidden = !enough;
  if (enough) for (const chart of CHARTS) chart.show(upToNow(facts), facts.now);
}
