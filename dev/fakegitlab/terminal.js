// Shows the terminal of a job: complete lines, and the last one, which changes. Whatever they hold, they are text.
'use strict';
const most = 400000; // characters that stay
const control = { c: '\x03', d: '\x04', z: '\x1a' }; // with Ctrl
const out = document.getElementById('out'), form = document.getElementById('keys'), typed = document.getElementById('typed');
const last = document.createTextNode('');
let shown = 0;
out.append(last);

const connection = new WebSocket(location.href.replace(/^http/, 'ws').replace(/[?#].*/, '') + '.ws');
const send = (text) => { if (connection.readyState === WebSocket.OPEN) connection.send(text); };

connection.onmessage = (e) => {
  const now = JSON.parse(e.data), atEnd = out.scrollHeight - out.scrollTop - out.clientHeight < 40;
  say('The terminal is open.');
  if (now.lines) last.before(now.lines);
  last.data = now.last;
  for (shown += now.lines.length; shown > most && out.firstChild !== last;) {
    shown -= out.firstChild.length;
    out.firstChild.remove();
  }
  if (atEnd) out.scrollTop = out.scrollHeight;
};

connection.onclose = (e) => {
  say('The terminal is closed' + (e.reason ? ': ' + e.reason : '') + '.');
  for (const element of form.elements) element.disabled = true;
  document.getElementById('again').hidden = false;
};

function say(text) {
  const state = document.getElementById('state');
  if (state.textContent !== text) state.textContent = text;
}

form.onsubmit = (e) => {
  e.preventDefault();
  send(typed.value + '\n');
  typed.value = '';
};

for (const button of form.querySelectorAll('[data-key]')) {
  button.onclick = () => { send(control[button.dataset.key]); typed.focus(); };
}

typed.onkeydown = (e) => {
  const copies = typed.selectionStart !== typed.selectionEnd || !getSelection().isCollapsed;
  if (!e.ctrlKey || e.altKey || e.shiftKey || e.metaKey || copies || !(e.key in control)) return;
  e.preventDefault();
  send(control[e.key]);
};
