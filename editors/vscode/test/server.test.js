'use strict';

const test = require('node:test');
const assert = require('node:assert/strict');
const { commandLine, notStarted } = require('../src/server');

const nowhere = () => false;

test('without settings the program on the path is started', () => {
  assert.deepEqual(commandLine({}, undefined, nowhere), { command: 'preflight', args: ['lsp'] });
});

test('the program beside the selected Python is taken where it is there', () => {
  const there = (file) => file === '/opt/venv/bin/preflight';
  assert.equal(commandLine({}, '/opt/venv/bin/python', there, 'linux').command, '/opt/venv/bin/preflight');
  assert.equal(commandLine({}, '/usr/bin/python', there, 'linux').command, 'preflight');
  const windows = (file) => file === 'C:\\venv\\Scripts\\preflight.exe';
  assert.equal(commandLine({}, 'C:\\venv\\Scripts\\python.exe', windows, 'win32').command, 'C:\\venv\\Scripts\\preflight.exe');
});

test('a command that was set wins, with its own words first', () => {
  const settings = { command: ['uvx', '--from', 'preflight-torch[lsp]', 'preflight'], gpu: 'h100', gpus: 8, launch: 'torchrun a.py' };
  assert.deepEqual(commandLine(settings, '/opt/venv/bin/python', () => true, 'linux'), {
    command: 'uvx',
    args: ['--from', 'preflight-torch[lsp]', 'preflight', 'lsp', '--gpu', 'h100', '--gpus', '8', '--launch', 'torchrun a.py'],
  });
});

test('what is empty is not said', () => {
  assert.deepEqual(commandLine({ command: [], gpu: '', gpus: null, persona: '' }, undefined, nowhere).args, ['lsp']);
});

test('a missing program is told with the way to install it', () => {
  assert.match(notStarted('preflight', new Error('spawn preflight ENOENT')), /pip install/);
  assert.match(notStarted('preflight', new Error('exit 2')), /did not start/);
});
