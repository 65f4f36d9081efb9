// Bring the widgets of a page to life without a kernel: each still picture carries its state, and each kind of widget
// its module as text (a module file would not load from file://).
addEventListener("DOMContentLoaded", () => {
  const sources = window.mhaWidgets ?? {};
  const modules = {};
  const load = (kind) =>
    (modules[kind] ??= import(URL.createObjectURL(new Blob([sources[kind]], { type: "text/javascript" }))));

  function makeModel(state) {
    const listeners = {};
    return {
      get: (name) => state[name],
      set(name, value) {
        if (state[name] === value) return;
        state[name] = value;
        for (const listener of listeners[`change:${name}`] ?? []) listener();
      },
      on: (event, listener) => (listeners[event] ??= []).push(listener),
      off: (event, listener) => (listeners[event] = (listeners[event] ?? []).filter((other) => other !== listener)),
      save_changes() {},
    };
  }

  async function revive(still) {
    const { default: widget } = await load(still.dataset.widget);
    const el = document.createElement("div");
    still.querySelector("img").after(el);
    await widget.render({ model: makeModel(JSON.parse(still.dataset.state)), el });
    still.classList.add("is-live");
  }
  for (const still of document.querySelectorAll("[data-widget]")) revive(still).catch(console.error);
});
