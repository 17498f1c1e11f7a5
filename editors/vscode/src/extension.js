// The check in Visual Studio Code: starts `preflight lsp` and lets the editor's own client speak with it.
'use strict';

const fs = require('node:fs');
const vscode = require('vscode');
const { LanguageClient, TransportKind } = require('vscode-languageclient/node');
const { commandLine, notStarted } = require('./server');

/** @type {LanguageClient | undefined} */
let client;
/** @type {vscode.OutputChannel | undefined} */
let output;
/** Starting and stopping one after the other: two changes at once must not leave two servers. */
let turn = Promise.resolve();

async function activate(context) {
  output = vscode.window.createOutputChannel('Preflight');
  context.subscriptions.push(
    output,
    vscode.commands.registerCommand('preflight.restart', restart),
    vscode.commands.registerCommand('preflight.showOutput', () => output.show()),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration('preflight') && !event.affectsConfiguration('preflight.trace')) {
        restart();
      }
    }),
    vscode.workspace.onDidGrantWorkspaceTrust(restart),
  );
  await restart();
}

function restart() {
  // What fails is said and ends here: the next turn begins anew.
  turn = turn
    .then(stop)
    .then(start)
    .catch((error) => output.appendLine(`the server could not be started: ${error}`));
  return turn;
}

async function start() {
  const { command, args } = commandLine(settings(), await selectedPython(), fs.existsSync);
  const server = { command, args, transport: TransportKind.stdio };
  output.appendLine([command, ...args].join(' '));
  const documents = [{ language: 'python', scheme: 'file' }];
  client = new LanguageClient('preflight', 'Preflight', server, { documentSelector: documents, outputChannel: output });
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    vscode.window.showWarningMessage(notStarted(command, error));
  }
}

async function stop() {
  const running = client;
  client = undefined;
  if (running) {
    await running.stop().catch((error) => output.appendLine(String(error)));
  }
}

function settings() {
  const given = vscode.workspace.getConfiguration('preflight');
  const names = ['command', 'gpu', 'gpus', 'launch', 'persona'];
  return Object.fromEntries(names.map((name) => [name, given.get(name)]));
}

/** The interpreter that the Python extension has selected, where that extension is there. */
async function selectedPython() {
  const extension = vscode.extensions.getExtension('ms-python.python');
  if (!extension) {
    return undefined;
  }
  try {
    const python = extension.isActive ? extension.exports : await extension.activate();
    const chosen = python?.environments?.getActiveEnvironmentPath?.(vscode.workspace.workspaceFolders?.[0]?.uri);
    const environment = chosen && (await python.environments.resolveEnvironment(chosen));
    return environment?.executable?.uri?.fsPath ?? chosen?.path;
  } catch (error) {
    output.appendLine(`the selected Python is not known: ${error}`);
    return undefined;
  }
}

async function deactivate() {
  turn = turn.then(stop);
  await turn;
}

module.exports = { activate, deactivate };
