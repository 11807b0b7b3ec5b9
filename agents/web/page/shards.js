// The table of shards: what is wrong stands first. A state is a word and a sign; the colour comes on top.

import { ask, rebuildOf, stopOf } from "./asking.js";
import { LivingTable, make, setText } from "./tables.js";
import { ago, count, lasting, loss, rate, secondsBetween } from "./words.js";

const STATES = {
  "refused": { sign: "✖", kind: "red" },
  "nobody": { sign: "✖", kind: "red", says: "held by nobody" },
  "standing still": { sign: "✖", kind: "red" },
  "taking over": { sign: "◌", kind: "amber", says: "being taken over" },
  "held": { sign: "●", kind: "green" },
  "elsewhere": { sign: "○", kind: "grey", says: "held elsewhere" },
};
const ORDER = Object.keys(STATES);
const UNKNOWN = { sign: "?", kind: "amber" };

function showState(cell, shard) {
  const { sign, kind } = STATES[shard.state] ?? UNKNOWN;
  setText(cell, `${sign} ${shard.state}`);
  cell.className = `state ${kind}`;
}

function pending(shard, facts) {
  const oldest = shard.pending && shard.pending_oldest;
  return count(shard.pending) + (oldest ? `, oldest ${lasting(secondsBetween(oldest, facts.now))}` : "");
}

function holder(shard) {
  return shard.worker ? `${shard.worker}${shard.here ? " (this one)" : ""}` : "nobody";
}

const regions = (running) => `${count(running.done)} of ${count(running.of)} regions`;

/** The button, or how far the rebuild is; the elements stay, so that neither a press nor the focus is lost. */
function showRebuild(cell, shard) {
  if (!cell.firstChild) {
    const button = make("button", { type: "button" });
    button.addEventListener("click", () => ask(button.what()));
    cell.append(make("span", { class: "progress" }, make("progress"), make("span")), button);
  }
  const [far, button] = cell.children, running = shard.rebuild;
  far.hidden = !running;
  if (running) {
    far.children[0].max = Math.max(1, running.of);
    far.children[0].value = running.done;
    far.children[0].setAttribute("aria-label", `rebuild of shard ${shard.shard}`);
    setText(far.children[1], regions(running));
  }
  button.disabled = Boolean(running?.cancelling);
  setText(button, running ? (running.cancelling ? "stopping" : "Stop…") : "Rebuild…");
  button.setAttribute("aria-label", `${running ? "Stop the rebuild of" : "Rebuild"} shard ${shard.shard}`);
  button.what = () => (running ? stopOf(shard.shard) : rebuildOf(shard.shard, shard.state === "nobody"));
}

const NUMBER = { number: true };
const COLUMNS = [
  { label: "shard", text: (shard) => String(shard.shard) },
  { label: "state", fill: showState },
  { label: "held by", text: holder, long: true },
  { label: "since", text: (shard, facts) => ago(shard.since, facts.now), ...NUMBER },
  { label: "lag", text: (shard) => count(shard.lag), ...NUMBER },
  { label: "messages/s", text: (shard) => rate(shard.messages_per_s), ...NUMBER },
  { label: "records/s", text: (shard) => rate(shard.records_per_s), ...NUMBER },
  { label: "last commit", text: (shard, facts) => ago(shard.last_commit, facts.now), ...NUMBER },
  { label: "release", text: (shard) => count(shard.release), ...NUMBER },
  { label: "pending", text: pending, ...NUMBER },
  { label: "loss", text: (shard) => loss(shard.ncp), ...NUMBER },
  { label: "fresh", text: (shard) => loss(shard.ncp_fresh), ...NUMBER },
  { label: "rebuild", fill: showRebuild, long: true, tall: true },
];

/** "Of 6: 1 refused, 5 held.", the worst first. */
export function statesInWords(shards) {
  const numbers = (state) => shards.filter((shard) => shard.state === state).length;
  const said = [...ORDER, ...new Set(shards.map((shard) => shard.state).filter((state) => !STATES[state]))]
    .map((state) => [numbers(state), STATES[state]?.says ?? state])
    .filter(([n]) => n)
    .map(([n, words]) => `${count(n)} ${words}`);
  if (!shards.length) return "None: Kafka has not told of any shard yet.";
  return `Of ${count(shards.length)}: ${said.join(", ")}.`;
}

export function shardTable(table) {
  const living = new LivingTable(table, COLUMNS, (shard) => shard.shard, (shard) => shard.reason ?? "");
  const rank = (shard) => (STATES[shard.state] ? ORDER.indexOf(shard.state) : 0);
  const calm = ORDER.indexOf("held");  // from here on, by number alone
  const order = (shard) => Math.min(rank(shard), calm);
  return (facts) => living.show([...facts.shards].sort((a, b) => order(a) - order(b) || a.shard - b.shard), facts);
}

const COUNTED = ["rows", "qi_groups", "messages", "applied", "ignored", "dead_letters", "merges", "splits"];
const HEADINGS = { qi_groups: "QI groups", dead_letters: "dead letters" };

export function countTable(table) {
  const columns = COUNTED.map((name) => (
    { label: HEADINGS[name] ?? name, text: (line) => count(line[name]), ...NUMBER }));
  const shardColumn = { label: "shard", text: (line) => String(line.shard) };
  const living = new LivingTable(table, [shardColumn, ...columns], (line) => line.shard);
  return (facts) => {
    const all = { shard: "all", ...Object.fromEntries(COUNTED.map((name) => [name, total(facts.shards, name)])) };
    living.show(facts.shards.length > 1 ? [...facts.shards, all] : facts.shards, facts);
  };
}

export const total = (shards, name) => shards.reduce((sum, shard) => sum + (shard[name] ?? 0), 0);

function runningOf({ rebuild }) {
  if (!rebuild) return [];
  const far = `${rebuild.cancelling ? "stopping" : "running"}, ${regions(rebuild)}, begun`;
  return [{ ...rebuild, at: rebuild.began, ended: far, ncp_before: null, ncp_after: null, rows_published: null }];
}

export function rebuildTable(table) {
  const columns = [
    { label: "shard", text: (one) => String(one.shard) },
    { label: "how it stands", text: (one, facts) => `${one.ended} ${ago(one.at, facts.now)}`, long: true },
    { label: "algorithm", text: (one) => one.algorithm },
    { label: "why", text: (one) => one.why },
    { label: "loss before", text: (one) => loss(one.ncp_before), ...NUMBER },
    { label: "after", text: (one) => loss(one.ncp_after), ...NUMBER },
    { label: "rows published", text: (one) => count(one.rows_published), ...NUMBER },
  ];
  const living = new LivingTable(table, columns, (one) => `${one.shard} ${one.at}`);
  return (facts) => {
    const all = facts.shards.flatMap((shard) =>
      [...runningOf(shard), ...shard.rebuilds].map((one) => ({ shard: shard.shard, ...one })));
    living.show(all.sort((a, b) => Date.parse(b.at) - Date.parse(a.at)), facts);
    return all.length;
  };
}

export function letterTable(table) {
  const columns = [
    { label: "reason", text: ([reason]) => reason },
    { label: "messages", text: ([, n]) => count(n), ...NUMBER },
  ];
  const living = new LivingTable(table, columns, ([reason]) => reason);
  return (facts) => {
    const letters = Object.entries(facts.dead_letters).filter(([, n]) => n).sort((a, b) => b[1] - a[1]);
    living.show(letters, facts);
    return letters.length;
  };
}
