// The stream of facts, and whether it still comes. A worker that is frozen keeps its connection open and says nothing:
// so silence counts, not only what the browser calls an error, and a silent stream is opened anew.

const SILENCE_MS_MAX = 5_000;
const ANEW_MS = 3_000;

/** Calls heard(facts) for every event, and lost(milliseconds since the last one) every second while none comes. */
export function listen(heard, lost) {
  const began = performance.now();
  let last = began, opened = began, broken = false, source = null;

  function open() {
    source?.close();
    opened = performance.now();
    source = new EventSource("events");
    source.onmessage = (event) => {
      heard(JSON.parse(event.data));
      last = performance.now();  // only now: what could not be shown was not heard
      broken = false;
    };
    source.onerror = () => {
      broken = true;
      look();
    };
  }

  function look() {
    const now = performance.now();
    if (!broken && now - last <= SILENCE_MS_MAX) return;
    lost(now - last);
    if (now - opened > (broken ? ANEW_MS : SILENCE_MS_MAX)) open();
  }

  open();
  setInterval(look, 1_000);
}
