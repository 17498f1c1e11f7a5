'use strict';

const assert = require('node:assert/strict');
const Module = require('node:module');
const test = require('node:test');

const said = [];
let fails = true;
let started = 0;
const commands = {};
const stubs = {
  vscode: {
    window: { createOutputChannel: () => ({ appendLine: (line) => said.push(line), show() {} }), showWarningMessage() {} },
    commands: { registerCommand: (name, act) => (commands[name] = act) },
    extensions: { getExtension: () => undefined },
    workspace: {
      onDidChangeConfiguration() {},
      onDidGrantWorkspaceTrust() {},
      getConfiguration() {
        if (fails) {
          throw new Error('no settings');
        }
        return { get: () => undefined };
      },
    },
  },
  'vscode-languageclient/node': {
    TransportKind: { stdio: 0 },
    LanguageClient: class {
      async start() {
        started += 1;
      }
      async stop() {}
    },
  },
};

test('a start that fails is said, and the next one is a start again', async () => {
  const load = Module._load;
  Module._load = (name, ...more) => stubs[name] ?? load(name, ...more);
  const { activate } = require('../src/extension');
  Module._load = load;
  await activate({ subscriptions: [] });
  assert.deepEqual(said, ['the server could not be started: Error: no settings']);
  fails = false;
  await commands['preflight.restart']();
  assert.equal(started, 1);
});
