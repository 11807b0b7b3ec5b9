// The dialog that asks before anything is asked of the worker: twice for a rebuild, once to stop one. The token is kept
// for as long as the tab is open, and only after the worker has taken it.

import { setText } from "./tables.js";

const TOKEN = "streamer-token";
const byId = (id) => document.getElementById(id);

/** What is asked of the worker: where it is sent, and the questions before that, each with its two answers. */
export function rebuildOf(shard, waits) {
  const what = shard === null ? "all shards" : `shard ${shard}`;
  const one = shard === null ? "each shard" : what;
  const late = waits ? " No worker holds it: the request waits for one, for an hour at most." : "";
  return {
    path: "rebuild", body: { shard, algorithm: null },
    title: `Rebuild ${what}?`,
    questions: [
      { text: `Re-anonymizes ${one} in regions, behind the running stream. Readers keep a correct table meanwhile; ` +
          `rows whose QI group changes are published again.${late}`, go: `Rebuild ${what}`, leave: "Leave it" },
      { text: `Sure? This is the second time you are asked. Once begun, the rebuild of ${what} can be stopped ` +
          "between two regions; those that are done stay so.", go: `Yes, rebuild ${what} now`, leave: "No, leave it" },
    ],
    asked: "Asked. A worker takes it up within seconds; how far it is stands in the table of shards.",
  };
}

export function stopOf(shard) {
  return {
    path: "rebuild/cancel", body: { shard },
    title: `Stop the rebuild of shard ${shard}?`,
    questions: [{ text: "Regions that are done stay so; the others stay as they were. Readers keep a correct table.",
      go: "Stop the rebuild", leave: "Let it go on" }],
    asked: "Asked. It stops after the region that is being made.",
  };
}

let asking = null;

export function ask(what) {
  asking = { what, question: 0, over: false };
  setText(byId("dialog-title"), what.title);
  byId("token").value = sessionStorage.getItem(TOKEN) ?? "";
  setText(byId("dialog-answer"), "");
  showQuestion();
  byId("dialog").showModal();
  focusFirst();
}

function showQuestion() {
  const question = asking.what.questions[asking.question];
  setText(byId("dialog-text"), question.text);
  setText(byId("dialog-go"), question.go);
  setText(byId("dialog-leave"), question.leave);
  byId("dialog-go").hidden = byId("dialog-go").disabled = false;
  byId("dialog-token").hidden = asking.question > 0;
  byId("dialog").classList.toggle("again", asking.question > 0);
}

/** The focus goes where nothing can be begun by mistake: to the token while there is none, else to the way out. */
function focusFirst() {
  (asking.question === 0 && !byId("token").value ? byId("token") : byId("dialog-leave")).focus();
}

async function goOn(event) {
  event.preventDefault();
  if (asking.over || byId("dialog-go").disabled) return;
  if (asking.question + 1 < asking.what.questions.length) {
    asking.question += 1;
    showQuestion();
    focusFirst();
    return;
  }
  byId("dialog-go").disabled = true;
  await send(asking);
}

async function send(mine) {
  const token = byId("token").value;
  setText(byId("dialog-answer"), "Asking the worker.");
  const { accepted, refusedToken, sentence } = await answerTo(mine.what, token);
  if (accepted) sessionStorage.setItem(TOKEN, token);
  if (refusedToken) sessionStorage.removeItem(TOKEN);
  if (asking !== mine) return;
  if (refusedToken) {
    mine.question = 0;
    showQuestion();
    byId("token").value = "";
    byId("token").focus();
  } else {
    mine.over = true;
    byId("dialog-go").hidden = true;
    setText(byId("dialog-leave"), "Close");
    byId("dialog-leave").focus();
  }
  setText(byId("dialog-answer"), sentence);
}

async function answerTo(what, token) {
  try {
    const headers = { "Content-Type": "application/json", "X-Streamer-Token": token };
    const answer = await fetch(what.path, { method: "POST", headers, body: JSON.stringify(what.body) });
    if (answer.ok) return { accepted: true, sentence: what.asked };
    const said = await answer.json().catch(() => ({}));
    const sentence = `Refused: ${said.error ?? `the worker answered ${answer.status}`}`;
    return { refusedToken: [401, 403].includes(answer.status), sentence };
  } catch {
    return { sentence: "No answer came from the worker: look at the table of shards before you ask again." };
  }
}

export function prepareDialog() {
  byId("dialog").querySelector("form").addEventListener("submit", goOn);
  byId("dialog-leave").addEventListener("click", () => byId("dialog").close());
  byId("dialog").addEventListener("close", () => { asking = null; byId("token").value = ""; });
}
