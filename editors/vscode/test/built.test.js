'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const Module = require('node:module');
const os = require('node:os');
const path = require('node:path');
const test = require('node:test');

const BUILT = path.join(__dirname, '..', 'dist', 'extension.js');

// A server that keeps what it is asked, and answers what the editor's client needs to start and to stop.
const SERVER = `
const fs = require('node:fs');
let rest = Buffer.alloc(0);
fs.appendFileSync(process.env.KEPT, JSON.stringify(process.argv.slice(2)) + '\\n');
process.stdin.on('data', (piece) => {
  rest = Buffer.concat([rest, piece]);
  for (;;) {
    const end = rest.indexOf('\\r\\n\\r\\n');
    if (end < 0) return;
    const length = Number(/Content-Length: (\\d+)/i.exec(rest.subarray(0, end))[1]);
    if (rest.length < end + 4 + length) return;
    const message = JSON.parse(rest.subarray(end + 4, end + 4 + length));
    rest = rest.subarray(end + 4 + length);
    fs.appendFileSync(process.env.KEPT, JSON.stringify(message.method) + '\\n');
    if (message.method === 'exit') process.exit(0);
    if (message.id === undefined) continue;
    const result = message.method === 'initialize' ? { capabilities: { textDocumentSync: 1 } } : null;
    const body = JSON.stringify({ jsonrpc: '2.0', id: message.id, result });
    process.stdout.write('Content-Length: ' + Buffer.byteLength(body) + '\\r\\n\\r\\n' + body);
  }
});
`;

/** Something that can be called, constructed, extended and asked for anything, like a part of the editor. */
function anything(known = {}) {
  const parts = {};
  const standIn = function () {};
  const part = new Proxy(standIn, {
    get(target, name) {
      if (name === 'prototype') return target.prototype;
      if (typeof name === 'symbol' || name === 'then') return undefined;
      return known[name] ?? (parts[name] ??= anything());
    },
    apply: () => anything(),
    // What the client derives from a class of the editor is an object of its own.
    construct: (target, given, maker) => (maker === part ? anything() : Reflect.construct(target, given, maker)),
  });
  return part;
}

const skip = !fs.existsSync(BUILT) && 'npm run build first';

test('what is built starts the server with its options, speaks with it and ends it', { skip }, async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'preflight-'));
  const kept = path.join(folder, 'kept');
  fs.writeFileSync(path.join(folder, 'server.js'), SERVER);
  process.env.KEPT = kept;
  const settings = { command: [process.execPath, path.join(folder, 'server.js')], gpu: 'h100', gpus: 8 };
  const warnings = [];
  const said = [];
  const commands = {};
  const vscode = anything({
    version: '1.91.0',
    extensions: anything({ getExtension: () => undefined }),
    commands: anything({ registerCommand: (name, act) => (commands[name] = act) }),
    window: anything({
      createOutputChannel: () => anything({ appendLine: (line) => said.push(line), append: (text) => said.push(text) }),
      showWarningMessage: (text) => warnings.push(text),
      visibleTextEditors: [],
      tabGroups: anything({ all: [] }),
    }),
    workspace: anything({
      textDocuments: [],
      notebookDocuments: [],
      workspaceFolders: undefined,
      getConfiguration: () => anything({ get: (name) => settings[name] }),
    }),
  });
  const load = Module._load;
  Module._load = (name, ...more) => (name === 'vscode' ? vscode : load(name, ...more));
  const { activate, deactivate } = require(BUILT);
  Module._load = load;
  await activate({ subscriptions: [] });
  assert.deepEqual([warnings, said.slice(1)], [[], []]);
  assert.ok(commands['preflight.restart'] && commands['preflight.showOutput']);
  await deactivate();
  const seen = fs.readFileSync(kept, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
  assert.deepEqual(seen[0], ['lsp', '--gpu', 'h100', '--gpus', '8', '--stdio']);
  assert.deepEqual(seen.slice(1, 3), ['initialize', 'initialized']);
  assert.ok(seen.includes('shutdown'));
  fs.rmSync(folder, { recursive: true });
});
