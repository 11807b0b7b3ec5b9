// The status page. What the worker says of itself comes once a second, whole; everything here is shown from the last of
// it, and greyed as soon as no more comes.

import { ask, prepareDialog, rebuildOf } from "./asking.js";
import { prepareCharts, showCharts, showTotals, summed } from "./figures.js";
import { countTable, letterTable, rebuildTable, shardTable, statesInWords } from "./shards.js";
import { listen } from "./stream.js";
import { make, setSentence, setText } from "./tables.js";
import { clock, count, lasting, several } from "./words.js";

const SENTENCES_MAX = 5;  // more of them are folded away: a hundred refused shards must not hide the page
const byId = (id) => document.getElementById(id);

// -- the verdict ---------------------------------------------------------------------------------------------------

function wordOf({ ok, problems, warnings }) {
  const warned = warnings.length ? several(warnings.length, "warning") : "";
  if (!ok) return ["red", [`✖ ${several(problems.length, "problem")}`, warned].filter(Boolean).join(", ")];
  return warned ? ["amber", `▲ It works, with ${warned}`] : ["green", "✔ Everything works"];
}

function showVerdict(verdict) {
  const [kind, word] = wordOf(verdict);
  byId("verdict").className = `bar ${kind}`;
  setText(byId("verdict-word"), word);
  const sentences = [...verdict.problems, ...verdict.warnings.map((sentence) => `warning: ${sentence}`)];
  showList(byId("sentences"), sentences.slice(0, SENTENCES_MAX));
  const rest = sentences.slice(SENTENCES_MAX);
  byId("more").hidden = !rest.length;
  setText(byId("more").querySelector("summary"), `and ${count(rest.length)} more`);
  showList(byId("more").querySelector("ul"), rest);
  return word;
}

/** A live region is touched only where it changes: else a screen reader would say it every second. */
function showList(list, sentences) {
  while (list.children.length > sentences.length) list.lastElementChild.remove();
  while (list.children.length < sentences.length) list.append(make("li"));
  sentences.forEach((sentence, i) => setSentence(list.children[i], sentence));
}

// -- all of it -----------------------------------------------------------------------------------------------------

const showShards = shardTable(byId("shards")), showCounts = countTable(byId("counts"));
const showRebuilds = rebuildTable(byId("rebuilds")), showLetters = letterTable(byId("letters"));
let lastHeard = null;

function heard(facts) {
  lastHeard = facts;
  byId("facts").hidden = false;
  setText(byId("table"), facts.table);
  setText(byId("about"), [
    `every QI group has ${facts.model}`, `published as ${facts.form}`, `worker ${facts.worker}`, `streamer ${facts.version}`,
    clock(facts.now, facts.now),
  ].join(" · "));
  document.title = `${showVerdict(facts.verdict)} – ${facts.table}`;
  showTotals(facts);
  showCharts(facts);
  setText(byId("states"), statesInWords(facts.shards));
  byId("rebuild-all").hidden = facts.shards.length < 2;
  showShards(facts);
  byId("shards").hidden = byId("counts").hidden = !facts.shards.length;
  byId("rebuilds").hidden = !(byId("no-rebuilds").hidden = showRebuilds(facts) > 0);
  byId("letters").hidden = byId("letters-how").hidden = !(byId("no-letters").hidden = showLetters(facts) > 0);
  setText(byId("account"), summed(facts.shards));
  showList(byId("unlisted"), facts.unlisted);
  showCounts(facts);
  byId("connection").hidden = true;
  byId("facts").inert = false;
  document.body.classList.remove("lost");
}

function lost(milliseconds) {
  const since = lastHeard ? `since ${clock(lastHeard.now, lastHeard.now)}, ${lasting(milliseconds / 1000)} ago` :
    `for ${lasting(milliseconds / 1000)}, since this page was opened`;
  const old = lastHeard ? " What stands below is as it was then." : "";
  const first = `✖ No connection to the worker ${since}.`;
  setText(byId("connection"), `${first}${old} Is it running? Its log says why it ended.`);
  byId("connection").hidden = false;
  document.body.classList.add("lost");
  byId("facts").inert = true;  // nothing is asked of a worker that does not answer
  byId("verdict").className = "bar grey";
  const was = lastHeard && `Not known any more. It was: ${wordOf(lastHeard.verdict)[1]}`;
  setText(byId("verdict-word"), was ?? "Not known");
  document.title = `✖ no connection – ${lastHeard?.table ?? "streamer"}`;
}

prepareCharts();
byId("rebuild-all").addEventListener("click", () => ask(rebuildOf(null, false)));
prepareDialog();
listen(heard, lost);
